/* xidlog.c - which faults of a kernel log still stand, and what each asks for; see
 * xid.h.
 *
 * Knob: REPEATED. A log with more different faults than fit counts the rest.
 */
#include <string.h>

#include "xid.h"

#define REPEATED 2 /* times after which Xid 109 is no accident */
#define XID_RECOVERY 154
#define XID_CHANNELS 45
#define XID_SWITCH_TIMEOUT 109

void gs_xidlog_init(struct gs_xidlog *log)
{
    memset(log, 0, sizeof(*log));
}

/* What Xid 154 says is to be done now: "... changed from 0x1 (x) to 0x0 (None)". */
static enum gs_xid_class recovery_class(const char *text)
{
    static const struct {
        const char *says;
        enum gs_xid_class cls;
    } ACTIONS[] = {
        {"None", GS_XID_IGNORE},
        {"Drain P2P", GS_XID_WATCH},
        {"Reboot", GS_XID_REBOOT},
        {"Reset", GS_XID_RESET},
    };
    const char *target = strstr(text, ") to ");

    for (size_t i = 0; i < sizeof(ACTIONS) / sizeof(ACTIONS[0]); i++) {
        if (strstr(target ? target : text, ACTIONS[i].says))
            return ACTIONS[i].cls;
    }
    return GS_XID_WATCH;
}

/* The driver says that a GPU needs no recovery (any more): its faults are over. */
static void drop_gpu(struct gs_xidlog *log, const char *pci)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < log->count; i++) {
        if (log->xids[i].nvswitch || strcmp(log->xids[i].pci, pci) != 0)
            log->xids[kept++] = log->xids[i];
    }
    log->over += log->count - kept;
    log->count = kept;
}

static void add_xid(struct gs_xidlog *log, const struct gs_xid *xid)
{
    if (!xid->nvswitch && xid->number == XID_RECOVERY
        && recovery_class(xid->text) == GS_XID_IGNORE)
        drop_gpu(log, xid->pci);
    for (uint32_t i = 0; i < log->count; i++) {
        struct gs_xid *known = &log->xids[i];
        uint32_t times = known->times + 1;

        if (known->number == xid->number && known->nvswitch == xid->nvswitch
            && strcmp(known->pci, xid->pci) == 0) {
            *known = *xid;
            known->times = times;
            return;
        }
    }
    if (log->count == GS_XID_MAX)
        log->lost++;
    else
        log->xids[log->count++] = *xid;
}

void gs_xidlog_add(struct gs_xidlog *log, const char *text, size_t len)
{
    struct gs_xid xid;

    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t line = end ? (size_t)(end - text) + 1 : len;
        enum gs_klog kind = gs_xid_read(text, line, &xid);

        if (kind == GS_KLOG_LOADED) {
            log->over += log->count;
            log->count = 0;
        } else if (kind != GS_KLOG_OTHER) {
            add_xid(log, &xid);
        }
        text += line;
        len -= line;
    }
}

static bool others_of_gpu(const struct gs_xidlog *log, uint32_t index)
{
    for (uint32_t i = 0; i < log->count; i++) {
        if (i != index && !log->xids[i].nvswitch
            && strcmp(log->xids[i].pci, log->xids[index].pci) == 0)
            return true;
    }
    return false;
}

enum gs_xid_class gs_xidlog_class(const struct gs_xidlog *log,
                                  uint32_t index,
                                  bool recovery)
{
    const struct gs_xid *xid = &log->xids[index];

    if (xid->nvswitch)
        return xid->fatal ? GS_XID_RESET : GS_XID_WATCH;
    if (xid->number == XID_RECOVERY)
        return recovery_class(xid->text);
    if (xid->number == XID_CHANNELS && others_of_gpu(log, index))
        return GS_XID_IGNORE;
    if (xid->number == XID_SWITCH_TIMEOUT && (recovery || xid->times >= REPEATED))
        return GS_XID_RESET;
    return gs_xid_info(xid->number).cls;
}
