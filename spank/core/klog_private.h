/* klog_private.h - the kernel's log, read for what GPU drivers say in it. */
#ifndef GS_KLOG_PRIVATE_H
#define GS_KLOG_PRIVATE_H

#include "error.h"
#include "xid.h"

#define GS_KLOG_DEVICE "/dev/kmsg"
#define GS_KLOG_JOURNAL "journal" /* ask journalctl, which remembers more */

/* Reads the log into ret_log, which need not be initialised: /dev/kmsg record by record
 * as far as it goes, of any other file the last 8 MiB; the journal has two seconds to
 * answer. Never blocks on /dev/kmsg.
 * Returns 0, or -errno with a sentence and ret_log empty. */
int gs_klog_collect(const char *path,
                    struct gs_xidlog *ret_log,
                    struct gs_error *error);

#endif
