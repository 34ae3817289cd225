/* agents.c - the real start barrier of srun against simulated nodes, in three
 * processes.
 *
 *   agents barrier NODES TASKS  all connect, arrive, are probed and released
 *   agents lost NODES TASKS     one node hangs up while the others wait
 *   agents floor NODES TASKS    connect and accept only: what the kernel costs
 *
 * The deciding side is gs_root_step() as srun's thread runs it. The nodes speak the
 * wire protocol with the core's own code, but answer PROBE without connecting anywhere:
 * a real one makes one more connection, to rank 0's node. Prints one JSON object; on
 * failure one sentence, exit 1. Run it in a network namespace of its own. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agents.h"
#include "clock_private.h"
#include "net_private.h"
#include "root.h"

#define STEP_MS 20

struct result {
    int64_t decided_us, cpu_us, decided_cpu_us;
    uint32_t steps;
};

void die(const char *what)
{
    fprintf(stderr, "agents: %s: %s\n", what, strerror(errno));
    exit(1);
}

int64_t cpu_us(void)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000
           + used.ru_utime.tv_usec + used.ru_stime.tv_usec;
}

/* Every connection is a descriptor: as many as we may have. */
static void raise_limit(uint32_t nodes)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        die("getrlimit");
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        die("setrlimit");
    if (limit.rlim_max < nodes + 64) {
        errno = EMFILE;
        die("RLIMIT_NOFILE is too low");
    }
}

static long peak_kib(void)
{
    char line[128];
    long kib = -1;
    FILE *file = fopen("/proc/self/status", "re");

    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "VmHWM: %ld", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib;
}

static struct gs_gang *make_gang(const struct plan *plan)
{
    struct gs_gang *gang =
        gs_gang_create(plan->nodes, plan->nodes * plan->tasks_each, LIMIT_US);

    if (!gang)
        die("gs_gang_create");
    gang->job_id = 1;
    gang->wiring = true;
    return gang;
}

static void check_time(int64_t begun_us)
{
    if (gs_clock_now_us() < begun_us + LIMIT_US)
        return;
    errno = ETIMEDOUT;
    die("the run did not end");
}

static struct result decide(const struct plan *plan, int listen_fd)
{
    struct gs_gang *gang = make_gang(plan);
    struct gs_error error;
    struct gs_root *root = gs_root_create(gang, plan->key, listen_fd, "bench", &error);
    int64_t begun_us = gs_clock_now_us(), begun_cpu_us = cpu_us();
    struct result result = {0};
    uint32_t expected = plan->nodes - (plan->leaving != NO_AGENT);

    if (!root)
        die(error.text);
    atomic_store(&plan->board->go, true);
    while (atomic_load(&plan->board->told) < expected) {
        enum gs_rootevent event = gs_root_step(root, STEP_MS);
        result.steps++;
        if (event == GS_ROOT_DECIDED) {
            result.decided_us = gs_clock_now_us();
            result.decided_cpu_us = cpu_us() - begun_cpu_us;
        }
        /* All but the tasks of the one that leaves have arrived. */
        if (gang->arrived_count == gang->task_count - plan->tasks_each)
            atomic_store(&plan->board->ready, 1);
        check_time(begun_us);
    }
    result.cpu_us = cpu_us() - begun_cpu_us;
    atomic_store(&plan->board->done, true); /* before they see us hang up */
    gs_root_destroy(root);
    gs_gang_destroy(gang);
    return result;
}

static struct result only_accept(const struct plan *plan, int listen_fd)
{
    struct result result = {0};
    struct pollfd ready = {.fd = listen_fd, .events = POLLIN};
    int64_t begun_us = gs_clock_now_us(), begun_cpu_us = cpu_us();
    uint32_t accepted = 0;

    atomic_store(&plan->board->go, true);
    while (accepted < plan->nodes) {
        poll(&ready, 1, STEP_MS);
        while (gs_net_accept(listen_fd) >= 0)
            atomic_store(&plan->board->accepted, ++accepted);
        check_time(begun_us);
    }
    result.decided_us = gs_clock_now_us();
    atomic_store(&plan->board->last_us, result.decided_us);
    result.cpu_us = cpu_us() - begun_cpu_us;
    return result;
}

static void print(const struct plan *plan, const struct result *result)
{
    const struct board *board = plan->board;

    printf(
        "{\"nodes\": %u, \"first_us\": %lld, \"decided_us\": %lld, \"last_us\": %lld, "
        "\"left_us\": %lld, \"root_cpu_us\": %lld, \"root_cpu_decided_us\": %lld, "
        "\"client_cpu_us\": %lld, \"root_peak_kib\": %ld, \"refused\": %u, "
        "\"broken\": %u, \"steps\": %u}\n",
        plan->nodes,
        (long long)board->first_us,
        (long long)result->decided_us,
        (long long)board->last_us,
        (long long)board->left_us,
        (long long)result->cpu_us,
        (long long)result->decided_cpu_us,
        (long long)board->client_cpu_us,
        peak_kib(),
        board->refused,
        board->broken,
        result->steps);
}

static void start_clients(const struct plan *plan)
{
    for (uint32_t i = 0; i < CLIENTS; i++) {
        pid_t pid = fork();
        if (pid < 0)
            die("fork");
        if (pid > 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        client_run(plan, i);
    }
}

static struct plan read_plan(int argc, char **argv)
{
    struct plan plan = {.leaving = NO_AGENT};
    const char *mode = argc == 4 ? argv[1] : "";

    plan.nodes = argc == 4 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    plan.tasks_each = argc == 4 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
    plan.floor = strcmp(mode, "floor") == 0;
    if (strcmp(mode, "lost") == 0)
        plan.leaving = plan.nodes - 1;
    if (plan.nodes < CLIENTS || !plan.tasks_each
        || (!plan.floor && plan.leaving == NO_AGENT && strcmp(mode, "barrier") != 0)) {
        errno = EINVAL;
        die("usage: agents barrier|lost|floor NODES TASKS, at least 2 nodes");
    }
    return plan;
}

int main(int argc, char **argv)
{
    struct plan plan = read_plan(argc, argv);
    struct result result;
    int listen_fd = gs_net_listen(0, false), status, code = 0;

    if (listen_fd < 0 || gs_random(plan.key, sizeof(plan.key)) < 0)
        die("no socket to listen on");
    raise_limit(plan.nodes);
    plan.port = (uint16_t)gs_net_port(listen_fd);
    plan.board = mmap(NULL,
                      sizeof(*plan.board),
                      PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS,
                      -1,
                      0);
    if (plan.board == MAP_FAILED)
        die("mmap");
    start_clients(&plan);
    result = plan.floor ? only_accept(&plan, listen_fd) : decide(&plan, listen_fd);
    atomic_store(&plan.board->done, true);
    while (wait(&status) > 0)
        if (status != 0)
            code = 1;
    print(&plan, &result);
    return code;
}
