/* hostlist.h - Slurm's compressed node lists: "n[001-004,7],login" <-> names. */
#ifndef GS_HOSTLIST_H
#define GS_HOSTLIST_H

#include <stdint.h>

#include "error.h"

#define GS_HOSTS_MAX 131072 /* names in one list */
#define GS_RANGE_MAX 65536  /* numbers in one range, as in Slurm itself */
#define GS_HOSTNAME_MAX 255 /* characters of one name */

/* Names in order, duplicates kept. Freed by gs_names_free(). */
struct gs_names {
    char **name;
    uint32_t count;
};

/* Expands a node list as Slurm does: entries are separated by commas or blanks, an
 * entry may hold several bracket groups and text after them, and a number is padded
 * to the width of the low end of its range. With several groups the last varies
 * fastest, then the first, the second and so on: Slurm's own order.
 *
 * Stricter than Slurm where Slurm guesses: an unterminated or empty bracket, a range
 * that runs backwards or lacks an end, a sign, a blank or a letter inside brackets
 * and a character no host name has are errors, and so is a list with no name at all.
 *
 * Returns 0 and *ret_names (the caller's to free); -EINVAL (error quotes the list),
 * -ENOMEM. */
int gs_hostlist_expand(const char *text,
                       struct gs_names *ret_names,
                       struct gs_error *error);

/* Frees the names and empties the struct. NULL and empty are fine. */
void gs_names_free(struct gs_names *names);

/* The shortest list for messages and for pasting after -w, -x or `scontrol show node`:
 * sorted (numbers by value), each name once, "n[001-004,007]". Only numbers at the
 * end of a name are folded, since Slurm before 24.11 refuses text after a bracket.
 *
 * Returns malloc'd text for gs_text_free(), or NULL when memory runs out. */
char *gs_hostlist_fold(const char *const *names, uint32_t count);

/* The same for ranks: "0-7,9". */
char *gs_ranks_fold(const uint32_t *ranks, uint32_t count);

/* Frees text returned by the fold functions. NULL is fine. */
void gs_text_free(char *text);

#endif
