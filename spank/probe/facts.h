/* facts.h - what gangstart doctor wants to know of a node, as lines of KEY=VALUE.
 *
 * A key may come more than once. The last line is end=1: without it something did not
 * answer, and the line before asking=NAME says what was still known. Nothing here needs
 * Python, Slurm or root; what may not be seen is said as "unknown: WHY".
 */
#ifndef GS_PROBE_FACTS_H
#define GS_PROBE_FACTS_H

#include <stdbool.h>
#include <stddef.h>

#define GS_FACTS_LIST 16

/* Values of an option that may be given several times. */
struct gs_facts_list {
    size_t count;
    const char *value[GS_FACTS_LIST];
};

struct gs_facts_ask {
    const char *plugin;           /* the .so, NULL = not asked */
    const char *spool, *archive;  /* folders, NULL = not asked */
    const char *iface;            /* master-iface of the site, NULL = automatic */
    const char *node;             /* name of this node's slurmd, NULL = any slurmd */
    const char *munge;            /* munged's socket, NULL = not asked */
    const char *library;          /* libnvidia-ml.so.1, NULL = the linker's */
    const char *sysfs;            /* stands for / before /sys and /proc, NULL = "" */
    struct gs_facts_list file;    /* whose times are wanted */
    struct gs_facts_list connect; /* ADDRESS:PORT to reach */
};

/* Prints all facts on standard output. Returns the program's exit code: 0. */
int gs_facts_print(const struct gs_facts_ask *ask);

/* One line; control characters become '?'. */
void gs_fact(const char *key, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The parts, in the order they are printed. */
void gs_facts_of_files(const struct gs_facts_ask *ask);
void gs_facts_of_limits(const struct gs_facts_ask *ask);
void gs_facts_of_slurmd(const struct gs_facts_ask *ask);
void gs_facts_of_folders(const struct gs_facts_ask *ask);
void gs_facts_of_network(const struct gs_facts_ask *ask);

/* The constant plugin_version of a SPANK plugin (0xYYMMPP of the Slurm whose headers it
 * was compiled with), by reading the file: nothing of it is run. False: it has none. */
bool gs_facts_plugin_version(int fd, unsigned *ret_version);

#endif
