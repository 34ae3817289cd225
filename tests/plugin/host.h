/* host.h - a process of Slurm's as the plugin sees it: srun, slurmstepd, sbatch ...
 *
 * The real plugin is loaded and its hooks are called in Slurm's order; what Slurm's
 * daemons would do between the processes is done by pipes on this machine. One struct
 * describes the step, read from argv, the same in every process of it.
 */
#ifndef HOST_H
#define HOST_H

#include <slurm/spank.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NODES 16
#define RANKS 64
#define PLUGINS 4
#define ARGS 16

/* What becomes of a node. */
enum node_fate {
    NODE_FINE,
    NODE_SILENT,   /* its slurmd never answers: srun hangs in its launch */
    NODE_FAILED,   /* its slurmd refuses: srun goes on without it */
    NODE_UNFORKED, /* its slurmstepd gives up before it forks the tasks */
    NODE_OLD,      /* it has another version of the plugin (--old-plugin) */
    NODE_ODD       /* its plugstack.conf has a bad line */
};

/* What becomes of a task. */
enum rank_fate {
    RANK_FINE,
    RANK_EXIT,    /* exits with number before it reaches the barrier */
    RANK_KILL,    /* the same by signal number */
    RANK_NEVER,   /* never gets to the barrier */
    RANK_THEN,    /* starts and exits with number */
    RANK_STDIN,   /* starts and runs until the end of its stdin */
    RANK_SCRIBBLE /* writes over what it shares with slurmstepd: scribble.c */
};

struct node {
    const char *name;
    uint32_t ranks[RANKS];
    uint16_t rank_count;
    enum node_fate fate;
};

struct rank {
    enum rank_fate fate;
    int number;
};

struct host {
    const char *mode, *self;
    char **argv;
    const char *plugins[PLUGINS]; /* as plugstack.conf lists them */
    uint32_t plugin_count;
    const char *old_plugin;
    char *args[ARGS]; /* plugstack.conf's, of every plugin */
    int arg_count;
    bool flagged;     /* --gang-start ... */
    const char *flag; /* ... =SPEC, NULL = without */
    const char *out;  /* folder for what tasks find, NULL = none */
    const char *rdzv; /* what the nodes get instead of the plugin's own text */
    const char *list; /* of the nodes, as Slurm writes it; NULL = made from the names */
    uint32_t job_id, step_id;
    bool no_layout; /* the controller does not tell the layout */
    struct node nodes[NODES];
    uint32_t node_count, rank_count;
    uint32_t me; /* a slurmstepd's node */
    struct rank ranks[RANKS];
};

extern struct host host;

/* What spank_* answers at this moment; kept by whoever calls the hooks. */
struct phase {
    spank_context_t context;
    bool in_init; /* options may be registered */
    bool job_known;
    int task; /* local index, -1 = not about a task */
    bool exited;
    int status;
    char **env; /* the job's; in slurmstepd and tasks only */
    size_t env_room;
};

extern struct phase phase;

/* hostargs.c */
void host_read(int argc, char **argv);

/* stack.c: load the plugins; call one hook of each, in order, and note what they
 * returned; the option's callbacks. */
void stack_load(void);
void stack_call(const char *hook);
void stack_option(const char *text, bool remote);
void stack_option_env(void);
int stack_register(const struct spank_option *option);

/* environ.c: the job's environment inside slurmstepd. */
void env_read(int fd);
const char *env_get(const char *name);
void env_set(const char *name, const char *value);
void env_number(const char *name, unsigned long value);
void env_unset(const char *name);

/* events.c: one JSON object a line on stdout; text is escaped. */
void event(const char *kind, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A JSON string of text, in a static buffer of a few that take turns. */
const char *quoted(const char *text);
/* srun, slurmstepd-n001, ... */
const char *who(void);
void die(const char *what) __attribute__((noreturn));

/* The processes. */
int run_srun(void);
int run_stepd(void);
int run_once(void);
int run_report(int argc, char **argv);
void run_task(uint32_t local) __attribute__((noreturn));
void scribble(uint32_t rank, int how);

#endif
