/* container.c - a neighbour in plugstack.conf that behaves like a container plugin: an
 * option of its own, an import that takes its time, other namespaces for the task.
 *
 *   --test-image=NAME   switches it on
 *   CONTAINER_WHERE     task_init or user_init: where the import is waited for
 *   CONTAINER_WHO       ranks (task_init) or node numbers (user_init): ",4,5,"
 *   CONTAINER_HOLD      their import, a child process, takes until this file exists
 *   CONTAINER_NETWORK   ranks that get a network of their own: ",0,", "all"
 *   CONTAINER_MARKS     folder where each task leaves its pid as image.RANK */
#define _GNU_SOURCE
#include <sched.h>
#include <slurm/spank.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

SPANK_PLUGIN(container, 1)

#define HOLD_TENTHS 1200

static int wanted;

static int on_option(int value, const char *text, int remote)
{
    (void)value;
    (void)text;
    (void)remote;
    wanted = 1;
    return 0;
}

int slurm_spank_init(spank_t sp, int argc, char **argv)
{
    static char name[] = "test-image", arginfo[] = "NAME", usage[] = "image of a test";
    static struct spank_option option = {
        .name = name,
        .arginfo = arginfo,
        .usage = usage,
        .has_arg = 1,
        .cb = on_option,
    };

    (void)argc;
    (void)argv;
    return spank_option_register(sp, &option) == ESPANK_SUCCESS ? 0 : -1;
}

static int names(spank_t sp, const char *variable, uint32_t number)
{
    char who[256], mark[16];

    if (spank_getenv(sp, variable, who, sizeof(who)) != ESPANK_SUCCESS)
        return 0;
    snprintf(mark, sizeof(mark), ",%u,", number);
    return strcmp(who, "all") == 0 || strstr(who, mark) != NULL;
}

/* The import is a program of its own that this process waits for. */
static void import(spank_t sp, const char *where, uint32_t number)
{
    char path[1024], here[32];
    int parent = getppid();
    pid_t pid;

    if (spank_getenv(sp, "CONTAINER_WHERE", here, sizeof(here)) != ESPANK_SUCCESS
        || strcmp(here, where) != 0 || !names(sp, "CONTAINER_WHO", number)
        || spank_getenv(sp, "CONTAINER_HOLD", path, sizeof(path)) != ESPANK_SUCCESS)
        return;
    prctl(PR_SET_NAME, "container");
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_NAME, "enroot");
        prctl(PR_SET_PDEATHSIG, 9);
        for (int i = 0; i < HOLD_TENTHS && access(path, F_OK) != 0; i++)
            usleep(100000);
        _exit(0);
    }
    while (waitpid(pid, NULL, 0) < 0 && getppid() == parent)
        ;
}

static void leave_mark(spank_t sp, uint32_t rank)
{
    char folder[1024], path[1100];
    FILE *file;

    if (spank_getenv(sp, "CONTAINER_MARKS", folder, sizeof(folder)) != ESPANK_SUCCESS)
        return;
    snprintf(path, sizeof(path), "%s/image.%u", folder, rank);
    file = fopen(path, "w");
    if (!file)
        return;
    fprintf(file, "%d\n", getpid());
    fclose(file);
}

static int write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    return !file || fputs(text, file) < 0 || fclose(file) != 0 ? -1 : 0;
}

/* Keeps the user's own ids, as container programs do: the kernel wants to see that the
 * process is the user's. */
static int map_user(unsigned uid, unsigned gid)
{
    char users[64], groups[64];

    snprintf(users, sizeof(users), "%u %u 1\n", uid, uid);
    snprintf(groups, sizeof(groups), "%u %u 1\n", gid, gid);
    prctl(PR_SET_DUMPABLE, 1);
    return write_file("/proc/self/setgroups", "deny") < 0
                   || write_file("/proc/self/uid_map", users) < 0
                   || write_file("/proc/self/gid_map", groups) < 0
               ? -1
               : 0;
}

/* What a task sees from here on is another /boot, and perhaps another network. */
static int enter(spank_t sp, uint32_t rank)
{
    int flags = CLONE_NEWNS | (names(sp, "CONTAINER_NETWORK", rank) ? CLONE_NEWNET : 0);

    unsigned uid = geteuid(), gid = getegid();

    if (uid != 0)
        flags |= CLONE_NEWUSER;
    if (unshare(flags) < 0 || (uid != 0 && map_user(uid, gid) < 0)
        || mount("", "/", "", MS_REC | MS_PRIVATE, "") < 0
        || mount("image", "/boot", "tmpfs", 0, "") < 0
        || mkdir("/boot/inside", 0755) < 0) {
        slurm_error("container: no namespaces here: %m");
        return -1;
    }
    return 0;
}

int slurm_spank_user_init(spank_t sp, int argc, char **argv)
{
    uint32_t node;

    (void)argc;
    (void)argv;
    if (wanted && spank_get_item(sp, S_JOB_NODEID, &node) == ESPANK_SUCCESS)
        import(sp, "user_init", node);
    return 0;
}

int slurm_spank_task_init(spank_t sp, int argc, char **argv)
{
    uint32_t rank;

    (void)argc;
    (void)argv;
    if (!wanted || spank_get_item(sp, S_TASK_GLOBAL_ID, &rank) != ESPANK_SUCCESS)
        return 0;
    leave_mark(sp, rank);
    import(sp, "task_init", rank);
    return enter(sp, rank);
}
