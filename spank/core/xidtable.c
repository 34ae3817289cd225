/* xidtable.c - what each Xid asks for; see xid.h for how to add one.
 *
 * The classes follow NVIDIA's Xid catalogue (immediate action, Ampere and later). A
 * number that is missing here warns: nobody knows that it is harmless.
 */
#include "xid.h"

static const struct {
    uint32_t number;
    enum gs_xid_class cls;
    const char *name;
} XIDS[] = {
    {8, GS_XID_APP, "GPU stopped processing"},
    {11, GS_XID_APP, "invalid or corrupted push buffer"},
    {13, GS_XID_APP, "graphics engine exception"},
    {14, GS_XID_IGNORE, "unused"},
    {25, GS_XID_APP, "invalid or illegal push buffer"},
    {31, GS_XID_APP, "memory page fault"},
    {32, GS_XID_APP, "invalid or corrupted push buffer stream"},
    {37, GS_XID_IGNORE, "driver firmware"},
    {38, GS_XID_IGNORE, "driver firmware"},
    {39, GS_XID_APP, "copy engine exception"},
    {40, GS_XID_APP, "copy engine exception"},
    {41, GS_XID_APP, "copy engine exception"},
    {43, GS_XID_IGNORE, "a program's channel was stopped"},
    {44, GS_XID_IGNORE, "graphics engine fault"},
    {45, GS_XID_WATCH, "channels removed after another fault"},
    {46, GS_XID_RESET, "GPU stopped processing"},
    {48, GS_XID_RESET, "double-bit ECC error"},
    {54, GS_XID_REBOOT, "auxiliary power is not connected"},
    {60, GS_XID_APP, "video engine exception"},
    {62, GS_XID_RESET, "internal micro-controller halt"},
    {63, GS_XID_IGNORE, "a memory row was remapped"},
    {64, GS_XID_RESET, "a memory row could not be remapped"},
    {66, GS_XID_IGNORE, "illegal access by the driver"},
    {67, GS_XID_IGNORE, "illegal access by the driver"},
    {68, GS_XID_APP, "video decoder exception"},
    {69, GS_XID_APP, "graphics engine class error"},
    {70, GS_XID_APP, "copy engine exception"},
    {71, GS_XID_APP, "copy engine exception"},
    {72, GS_XID_APP, "copy engine exception"},
    {74, GS_XID_RESET, "NVLink error"},
    {75, GS_XID_APP, "copy engine exception"},
    {76, GS_XID_APP, "copy engine exception"},
    {77, GS_XID_APP, "copy engine exception"},
    {79, GS_XID_REBOOT, "GPU has fallen off the bus"},
    {80, GS_XID_APP, "corrupted data sent to the GPU"},
    {92, GS_XID_IGNORE, "many single-bit ECC errors"},
    {93, GS_XID_IGNORE, "InfoROM access was not as expected"},
    {94, GS_XID_APP, "contained memory error"},
    {95, GS_XID_RESET, "uncontained memory error"},
    {109, GS_XID_WATCH, "context switch timeout"},
    {110, GS_XID_RESET, "security fault"},
    {119, GS_XID_RESET, "GPU system processor did not answer"},
    {120, GS_XID_RESET, "GPU system processor error"},
    {121, GS_XID_IGNORE, "corrected error of the link to the CPU"},
    {136, GS_XID_RESET, "link training failed"},
    {137, GS_XID_IGNORE, "NVLink privilege error"},
    {140, GS_XID_RESET, "unrecovered ECC error"},
    {141, GS_XID_IGNORE, "reserved"},
    {143, GS_XID_RESET, "GPU could not be initialised"},
    {144, GS_XID_WATCH, "NVLink error: SAW"},
    {145, GS_XID_WATCH, "NVLink error: RLW"},
    {146, GS_XID_WATCH, "NVLink error: TLW"},
    {147, GS_XID_WATCH, "NVLink error: TREX"},
    {148, GS_XID_WATCH, "NVLink error: NVLPW_CTRL"},
    {149, GS_XID_WATCH, "NVLink error: NETIR"},
    {150, GS_XID_WATCH, "NVLink error: MSE"},
    {151, GS_XID_REBOOT, "key rotation failed"},
    {154, GS_XID_WATCH, "the recovery action changed"},
    {155, GS_XID_RESET, "NVLink error defined by the driver"},
    {156, GS_XID_RESET, "resource retirement"},
    {157, GS_XID_IGNORE, "resource retirement failed"},
    {158, GS_XID_RESET, "GPU fatal timeout"},
    {160, GS_XID_IGNORE, "channel retirement"},
    {161, GS_XID_IGNORE, "channel retirement failed"},
};

/* Runs of numbers that differ in nothing that matters here. */
static const struct {
    uint32_t first, last;
    enum gs_xid_class cls;
    const char *name;
} RANGES[] = {
    {82, 86, GS_XID_APP, "video engine exception"},
    {88, 89, GS_XID_APP, "video engine exception"},
    {96, 105, GS_XID_APP, "video engine exception"},
    {106, 108, GS_XID_IGNORE, "a program's own report"},
    {126, 135, GS_XID_APP, "engine exception"},
    {139, 139, GS_XID_APP, "engine exception"},
    {162, 165, GS_XID_IGNORE, "power smoothing"},
};

static const struct {
    enum gs_verdict verdict;
    const char *action;
} CLASSES[] = {
    [GS_XID_IGNORE] = {GS_OK, "nothing to do"},
    [GS_XID_APP] = {GS_WARN,
                    "start the program again; if it recurs on this GPU, test it"},
    [GS_XID_WATCH] = {GS_WARN,
                      "look at the kernel log around it; reset the GPU if it "
                      "recurs"},
    [GS_XID_RESET] = {GS_FAIL, "reset the GPU (nvidia-smi --gpu-reset) or reboot"},
    [GS_XID_REBOOT] = {GS_FAIL,
                       "reboot the node; if it recurs, have the GPU and its "
                       "power and slot looked at"},
};
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

struct gs_xid_info gs_xid_info(uint32_t number)
{
    struct gs_xid_info info = {number, GS_XID_WATCH, GS_WARN, "not a known Xid"};

    for (size_t i = 0; i < COUNT(XIDS); i++) {
        if (XIDS[i].number == number) {
            info.cls = XIDS[i].cls;
            info.name = XIDS[i].name;
        }
    }
    for (size_t i = 0; i < COUNT(RANGES); i++) {
        if (RANGES[i].first <= number && number <= RANGES[i].last) {
            info.cls = RANGES[i].cls;
            info.name = RANGES[i].name;
        }
    }
    info.verdict = CLASSES[info.cls].verdict;
    return info;
}

enum gs_verdict gs_xid_class_verdict(enum gs_xid_class cls)
{
    return (size_t)cls < COUNT(CLASSES) ? CLASSES[cls].verdict : GS_UNKNOWN;
}

const char *gs_xid_class_action(enum gs_xid_class cls)
{
    return (size_t)cls < COUNT(CLASSES) ? CLASSES[cls].action : "";
}
