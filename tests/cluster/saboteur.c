/* saboteur.c - a neighbour in plugstack.conf that does to one rank or node what real
 * ones do by accident; listed before the plugin under test.
 *
 *   SABOTEUR_HOOK   task_init, user_init or post_opt: where it strikes
 *   SABOTEUR_WHO    the ranks (task_init) or node numbers it strikes: ",4,5,"
 *   SABOTEUR_DOES   exit=CODE, kill=SIGNAL, or hold=PATH: wait until PATH exists;
 *                   sink=PATH: the same, in D state
 *
 * and as an argument: leak=DIR, to write the plugin's secret to DIR/secret. */
#include <signal.h>
#include <slurm/spank.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

SPANK_PLUGIN(saboteur, 1)

#define HOLD_TENTHS 1200

static void hold(const char *path)
{
    static const int swallowed[] = {
        SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGTERM, SIGTSTP};
    int parent = getppid();

    /* slurmstepd of 24.11 has handlers of its own at this point: what is held up ends
     * by a signal all the same, as it does in other releases. */
    for (size_t i = 0; i < sizeof(swallowed) / sizeof(swallowed[0]); i++)
        signal(swallowed[i], SIG_DFL);
    /* proctrack/linuxproc never signals what is called slurmstepd. */
    prctl(PR_SET_NAME, "saboteur");
    for (int i = 0; i < HOLD_TENTHS && access(path, F_OK) != 0; i++) {
        if (getppid() != parent)
            _exit(1);
        usleep(100000);
    }
}

/* The parent of a vfork() cannot be interrupted until its child is through. */
static void sink(const char *path)
{
    prctl(PR_SET_NAME, "saboteur");
    if (vfork() == 0) {
        hold(path);
        _exit(0);
    }
}

static void strike(spank_t sp, const char *hook, uint32_t number)
{
    char where[32], who[256], does[1024], mark[16];

    if (spank_getenv(sp, "SABOTEUR_HOOK", where, sizeof(where)) != ESPANK_SUCCESS
        || spank_getenv(sp, "SABOTEUR_WHO", who, sizeof(who)) != ESPANK_SUCCESS
        || spank_getenv(sp, "SABOTEUR_DOES", does, sizeof(does)) != ESPANK_SUCCESS
        || strcmp(where, hook) != 0)
        return;
    snprintf(mark, sizeof(mark), ",%u,", number);
    if (!strstr(who, mark))
        return;
    if (strncmp(does, "exit=", 5) == 0)
        _exit(atoi(does + 5));
    if (strncmp(does, "kill=", 5) == 0)
        kill(getpid(), atoi(does + 5));
    if (strncmp(does, "hold=", 5) == 0)
        hold(does + 5);
    if (strncmp(does, "sink=", 5) == 0)
        sink(does + 5);
}

static void strike_node(spank_t sp, const char *hook)
{
    uint32_t node;

    if (spank_remote(sp) == 1
        && spank_get_item(sp, S_JOB_NODEID, &node) == ESPANK_SUCCESS)
        strike(sp, hook, node);
}

static void leak(spank_t sp, int argc, char **argv)
{
    char text[4096], path[1024];
    FILE *file;

    if (argc < 1 || strncmp(argv[0], "leak=", 5) != 0 || spank_remote(sp) != 1
        || spank_getenv(sp, "SLURM_GANG_RDZV", text, sizeof(text)) != ESPANK_SUCCESS)
        return;
    snprintf(path, sizeof(path), "%s/secret", argv[0] + 5);
    file = fopen(path, "w");
    if (file) {
        fputs(text, file);
        fclose(file);
    }
}

int slurm_spank_init_post_opt(spank_t sp, int argc, char **argv)
{
    leak(sp, argc, argv);
    strike_node(sp, "post_opt");
    return 0;
}

int slurm_spank_user_init(spank_t sp, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    strike_node(sp, "user_init");
    return 0;
}

int slurm_spank_task_init(spank_t sp, int argc, char **argv)
{
    uint32_t rank;

    (void)argc;
    (void)argv;
    if (spank_get_item(sp, S_TASK_GLOBAL_ID, &rank) == ESPANK_SUCCESS)
        strike(sp, "task_init", rank);
    return 0;
}
