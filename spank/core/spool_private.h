/* spool_private.h - what the files of the spool share. */
#ifndef GS_SPOOL_PRIVATE_H
#define GS_SPOOL_PRIVATE_H

#include "error.h"

/* A directory of ours that nobody else can write to; made if it is missing. 0 or -errno
 * with a sentence. */
int gs_spool_own_dir(const char *path, struct gs_error *error);

#endif
