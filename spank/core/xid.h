/* xid.h - what the NVIDIA driver reports in the kernel log, and what it means.
 *
 * An Xid is a fault of one GPU, an SXid one of an NVSwitch. Lines are read one by one,
 * so /dev/kmsg, dmesg and a journal's text all do.
 *
 * How to add an Xid: one row in xidtable.c.
 */
#ifndef GS_XID_H
#define GS_XID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "verdict.h"

#define GS_XID_TEXT 160
#define GS_XID_PCI 32
#define GS_XID_MAX 128

/* What a line of the kernel log is. */
enum gs_klog {
    GS_KLOG_OTHER,
    GS_KLOG_XID,
    GS_KLOG_SXID,
    GS_KLOG_LOADED /* the driver was loaded: what came before is history */
};

/* Which clock a line's time is of. */
enum gs_klog_clock {
    GS_CLOCK_NONE, /* the line has no time that can be read without a time zone */
    GS_CLOCK_BOOT, /* since boot: kmsg, dmesg, syslog's bracket */
    GS_CLOCK_WALL  /* since 1970: ISO 8601 with its offset */
};

struct gs_xid {
    bool nvswitch;
    bool fatal; /* of an SXid */
    uint32_t number;
    uint32_t times; /* how often, in a log; time and text are the latest's */
    int64_t pid;    /* -1 = not told */
    enum gs_klog_clock clock;
    int64_t time_us;
    char pci[GS_XID_PCI]; /* normalised: dddd:bb:dd.f */
    char text[GS_XID_TEXT];
};

/* Faults that still stand: newer than the last load of the driver, and not followed by
 * the driver's word (Xid 154) that no recovery is needed any more. */
struct gs_xidlog {
    uint32_t count;
    uint32_t over; /* faults left out because a load or a recovery came after them */
    uint32_t lost; /* different faults that did not fit */
    struct gs_xid xids[GS_XID_MAX];
};

/* What has to be done about an Xid. */
enum gs_xid_class {
    GS_XID_IGNORE, /* nothing: corrected, or only a trace of something else */
    GS_XID_APP,    /* start the program again; the node is fine */
    GS_XID_WATCH,  /* look at it; not known to need a reset */
    GS_XID_RESET,  /* reset the GPU */
    GS_XID_REBOOT, /* reboot the node, or look at the machine */
};

struct gs_xid_info {
    uint32_t number;
    enum gs_xid_class cls;
    enum gs_verdict verdict; /* ok for GS_XID_IGNORE */
    const char *name;
};

/* Reads one line, with or without its line feed. ret_xid is set for GS_KLOG_XID and
 * GS_KLOG_SXID and else untouched. */
enum gs_klog gs_xid_read(const char *line, size_t len, struct gs_xid *ret_xid);

/* Normalises a PCI address ("PCI:0000:1A:00", "00000000:1A:00.0") into dddd:bb:dd.f;
 * false: it is none, out untouched. */
bool gs_pci_normalise(const char *text, size_t len, char out[GS_XID_PCI]);

/* An empty log; then any number of texts of one or more whole lines, oldest first. */
void gs_xidlog_init(struct gs_xidlog *log);
void gs_xidlog_add(struct gs_xidlog *log, const char *text, size_t len);

/* The row of an Xid. A number that is not in the table is GS_XID_WATCH and warns. */
struct gs_xid_info gs_xid_info(uint32_t number);

/* What this entry means beside the others of its log: 154 by what it says, 45 alone or
 * not, 109 by how often, an SXid by whether it was fatal. recovery: the driver says
 * that the GPU needs a recovery. */
enum gs_xid_class gs_xidlog_class(const struct gs_xidlog *log,
                                  uint32_t index,
                                  bool recovery);
enum gs_verdict gs_xid_class_verdict(enum gs_xid_class cls);
/* "reset the GPU" and so on; static. */
const char *gs_xid_class_action(enum gs_xid_class cls);

#endif
