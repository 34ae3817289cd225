/* facts_net.c - interfaces, and whether somebody can be reached; see facts.h. */
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock_private.h"
#include "facts.h"
#include "iface.h"
#include "net_private.h"

#define CONNECT_US (3 * 1000000L)
#define GREETING 128
#define MS 1000

/* By the kernel, not by /sys, which may show the network of whoever mounted it. */
static int mtu_of(const char *name)
{
    struct ifreq ask;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), mtu = -1;

    memset(&ask, 0, sizeof(ask));
    snprintf(ask.ifr_name, sizeof(ask.ifr_name), "%.15s", name);
    if (fd >= 0 && ioctl(fd, SIOCGIFMTU, &ask) == 0)
        mtu = ask.ifr_mtu;
    if (fd >= 0)
        close(fd);
    return mtu;
}

static void print_ifaces(const struct gs_iface *ifaces, int count)
{
    for (int i = 0; i < count; i++)
        gs_fact("iface",
                "%s %s %s %d",
                ifaces[i].name,
                ifaces[i].address,
                ifaces[i].up ? "up" : "down",
                mtu_of(ifaces[i].name));
}

/* Waits until a descriptor is ready. 0 or -errno. */
static int wait_for(int fd, short events, int64_t until)
{
    struct pollfd one = {.fd = fd, .events = events};
    int64_t left = until - gs_clock_now_us();
    int rc = left > 0 ? poll(&one, 1, (int)(left / MS) + 1) : 0;

    if (rc < 0)
        return -errno;
    return rc ? 0 : -ETIMEDOUT;
}

/* What the other side says first, one line. 0 or -errno; its time in *ret_us. */
static int read_greeting(int fd, int64_t until, char ret_text[GREETING])
{
    size_t used = 0;
    ssize_t got;
    int rc;

    while (used < GREETING - 1) {
        rc = wait_for(fd, POLLIN, until);
        if (rc < 0)
            return rc;
        got = read(fd, ret_text + used, GREETING - 1 - used);
        if (got < 0)
            return -errno;
        if (got == 0)
            return -ECONNRESET;
        used += (size_t)got;
        ret_text[used] = '\0';
        if (strchr(ret_text, '\n')) {
            *strchr(ret_text, '\n') = '\0';
            return 0;
        }
    }
    return -EPROTO;
}

/* connect=TARGET ok LOCAL_ADDRESS MICROSECONDS OWN_TIME_US GREETING */
static void print_connection(const char *target, char ret_local[GS_ADDR_SIZE])
{
    char address[GS_ADDR_SIZE], greeting[GREETING];
    const char *colon = strrchr(target, ':');
    int64_t begun = gs_clock_now_us(), until = begun + CONNECT_US, took;
    int fd, rc;

    if (!colon || colon == target || colon - target >= GS_ADDR_SIZE) {
        gs_fact("connect", "%s failed: is no ADDRESS:PORT", target);
        return;
    }
    snprintf(address, sizeof(address), "%.*s", (int)(colon - target), target);
    fd = gs_net_connect(address, (uint16_t)strtoul(colon + 1, NULL, 10));
    rc = fd < 0 ? fd : wait_for(fd, POLLOUT, until);
    rc = rc < 0 ? rc : gs_net_connected(fd);
    took = gs_clock_now_us() - begun;
    if (rc == 0)
        rc = read_greeting(fd, until, greeting);
    if (rc < 0) {
        gs_fact("connect", "%s failed: %s", target, strerror(-rc));
    } else {
        gs_net_local_text(fd, ret_local);
        gs_fact("connect",
                "%s ok %s %lld %lld %s",
                target,
                ret_local,
                (long long)took,
                (long long)gs_clock_wall_us(),
                greeting);
    }
    if (fd >= 0)
        close(fd);
}

void gs_facts_of_network(const struct gs_facts_ask *ask)
{
    static struct gs_iface ifaces[GS_IFACE_MAX];
    struct gs_candidate candidates[GS_CANDIDATE_MAX];
    struct gs_error error;
    char local[GS_ADDR_SIZE] = "";
    int count = gs_iface_list(ifaces, &error), found;

    if (count < 0) {
        gs_fact("chosen", "unknown: %s", error.text);
        return;
    }
    print_ifaces(ifaces, count);
    for (size_t i = 0; i < ask->connect.count; i++)
        print_connection(ask->connect.value[i], local);
    found = gs_iface_rank(ifaces,
                          (uint32_t)count,
                          ask->iface ? ask->iface : "",
                          local,
                          candidates,
                          &error);
    if (found > 0)
        gs_fact("chosen", "%s %s", candidates[0].interface, candidates[0].address);
    else
        gs_fact("chosen", "none: %s", found ? error.text : "no address");
}
