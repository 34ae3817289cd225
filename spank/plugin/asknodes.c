/* asknodes.c - see asknodes.h.
 *
 * slurmd's liveness is seen from a connection that is closed for writing at once: a
 * living slurmd closes its side too, a stopped one does not. Only then is it asked,
 * through Slurm's own interface, whether the step is there: asking a dead one would
 * print Slurm's errors into the user's terminal. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <slurm/slurm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "asknodes.h"
#include "clock_private.h"
#include "net_private.h"
#include "plugin.h"
#include "slurmread.h"

#define CONNECT_MS 1000
#define REACT_MS 1000
#define TOGETHER_US 2000000

static struct entry {
    char name[256];
    bool busy;
    int64_t begun_us, mute_since_us;
    uint32_t job_id, step_id;
    struct gs_why why;
} entries[GS_ASK_NODES];
static uint32_t entry_count, busy_count;
static uint16_t protocol; /* that the step's nodes speak */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER;

/* slurmctld's record; its address and port of slurmd. */
static void read_record(const char *name,
                        struct gs_why *why,
                        char ret_address[256],
                        uint16_t *ret_port)
{
    struct gs_slurm_node node = {0};
    bool known = gs_slurm_node(name, &node);
    uint32_t state = node.state;

    snprintf(ret_address, 256, "%s", node.address[0] ? node.address : name);
    *ret_port = node.port ? node.port : gs_slurm_slurmd_port();
    if (!known)
        return;
    why->down = (state & NODE_STATE_BASE) == NODE_STATE_DOWN;
    why->not_responding = (state & NODE_STATE_NO_RESPOND) != 0;
    why->drain = (state & (NODE_STATE_DRAIN | NODE_STATE_FAIL)) != 0;
    why->powering = (state & (NODE_STATE_POWERED_DOWN | NODE_STATE_POWERING_UP)) != 0;
    snprintf(why->reason, sizeof(why->reason), "%s", node.reason);
}

static bool ready(int fd, short events, int ms)
{
    struct pollfd one = {.fd = fd, .events = events};

    return poll(&one, 1, ms) > 0;
}

/* Connects to the first address that answers; -errno. May resolve a name: this is a
 * thread of its own. */
static int connect_to(const char *address, uint16_t port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    char text[GS_ADDR_SIZE];
    int fd = -EHOSTUNREACH;

    if (getaddrinfo(address, NULL, &hints, &found) != 0)
        return -EHOSTUNREACH;
    for (struct addrinfo *a = found; a; a = a->ai_next) {
        int rc;
        gs_net_text(a->ai_addr, text);
        fd = gs_net_connect(text, port);
        if (fd < 0)
            continue;
        rc = ready(fd, POLLOUT, CONNECT_MS) ? gs_net_connected(fd) : -ETIMEDOUT;
        if (rc == 0)
            break;
        close(fd);
        fd = rc;
    }
    freeaddrinfo(found);
    return fd;
}

static void knock(const char *address, uint16_t port, struct gs_why *why)
{
    int fd = connect_to(address, port);
    char byte;

    if (fd < 0) {
        why->slurmd = GS_SLURMD_UNREACHABLE;
        why->connect_errno = -fd;
        return;
    }
    shutdown(fd, SHUT_WR);
    why->slurmd = ready(fd, POLLIN, REACT_MS) && recv(fd, &byte, 1, 0) <= 0
                      ? GS_SLURMD_ALIVE
                      : GS_SLURMD_MUTE;
    close(fd);
}

void gs_ask_protocol(uint16_t version)
{
    protocol = version;
}

static void *ask(void *arg)
{
    struct entry *entry = arg;
    struct gs_why why = {.asked = true, .prolog = gs_slurm_prolog_at_launch()};
    char address[256];
    uint16_t port;

    gs_neighbours("slurm_spank_user_init", true, why.user_init, sizeof(why.user_init));
    read_record(entry->name, &why, address, &port);
    knock(address, port, &why);
    pthread_mutex_lock(&lock);
    if (why.slurmd != GS_SLURMD_MUTE)
        entry->mute_since_us = 0;
    else if (!entry->mute_since_us)
        entry->mute_since_us = gs_clock_now_us() - REACT_MS * 1000;
    entry->why = why;
    pthread_mutex_unlock(&lock);
    if (why.slurmd == GS_SLURMD_ALIVE && protocol) {
        why.step_there = gs_slurm_processes(
            entry->name, entry->job_id, entry->step_id, protocol, &why.process_count);
        why.step_known = true;
    }
    pthread_mutex_lock(&lock);
    entry->why = why;
    entry->busy = false;
    busy_count--;
    pthread_cond_broadcast(&idle);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static struct entry *find(const char *name)
{
    for (uint32_t i = 0; i < entry_count; i++)
        if (strcmp(entries[i].name, name) == 0)
            return &entries[i];
    return NULL;
}

static void start(struct entry *entry)
{
    pthread_attr_t detached;
    pthread_t thread;

    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    entry->busy = pthread_create(&thread, &detached, ask, entry) == 0;
    entry->begun_us = gs_clock_now_us();
    busy_count += entry->busy;
    pthread_attr_destroy(&detached);
}

void gs_ask_node(const char *name, uint32_t job_id, uint32_t step_id, int64_t since_us)
{
    struct entry *entry;

    pthread_mutex_lock(&lock);
    entry = find(name);
    if (!entry && entry_count < GS_ASK_NODES) {
        entry = &entries[entry_count++];
        snprintf(entry->name, sizeof(entry->name), "%s", name);
        entry->job_id = job_id;
        entry->step_id = step_id;
    }
    if (entry && !entry->busy && (!entry->begun_us || entry->begun_us < since_us))
        start(entry);
    pthread_mutex_unlock(&lock);
}

/* Since when a node is mute. Nodes that fell silent together are told the same time,
 * for a refusal to have one line of them: the latest of theirs, which is true of all.
 */
static int64_t mute_since(const struct entry *entry)
{
    int64_t since_us = entry->mute_since_us;

    for (uint32_t i = 0; i < entry_count; i++) {
        int64_t other_us = entries[i].mute_since_us;
        if (other_us > since_us && other_us - entry->mute_since_us < TOGETHER_US)
            since_us = other_us;
    }
    return since_us;
}

void gs_ask_result(const char *name, int64_t then_us, struct gs_why *ret_why)
{
    const struct entry *entry;

    pthread_mutex_lock(&lock);
    entry = find(name);
    if (entry)
        *ret_why = entry->why;
    else
        memset(ret_why, 0, sizeof(*ret_why));
    if (entry && entry->mute_since_us && mute_since(entry) < then_us)
        ret_why->mute_us = then_us - mute_since(entry);
    pthread_mutex_unlock(&lock);
}

bool gs_ask_saw_tasks(void)
{
    bool saw = false;

    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < entry_count; i++)
        saw |= entries[i].why.process_count > 0;
    pthread_mutex_unlock(&lock);
    return saw;
}

uint32_t gs_ask_finish(unsigned ms)
{
    struct timespec until;
    uint32_t left;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&lock);
    while (busy_count && pthread_cond_timedwait(&idle, &lock, &until) == 0)
        ;
    left = busy_count;
    pthread_mutex_unlock(&lock);
    return left;
}
