/* probekeys.c - see probeline_private.h. Tables only. */
#include "gpu.h"
#include "probeline_private.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))
#define OF_GPU(field) offsetof(struct gs_gpu, field)
#define OF_NODE(field) offsetof(struct gs_gpus, field)

static const struct gs_probe_key gpu_keys[] = {
    {"index", GS_PROBE_U32, OF_GPU(index)},
    {"code", GS_PROBE_CODE, OF_GPU(code)},
    {"pci", GS_PROBE_TEXT, OF_GPU(pci)},
    {"uuid", GS_PROBE_TEXT, OF_GPU(uuid)},
    {"name", GS_PROBE_TEXT, OF_GPU(name)},
    {"vbios", GS_PROBE_TEXT, OF_GPU(vbios)},
    {"serial", GS_PROBE_TEXT, OF_GPU(serial)},
    {"fabric_cluster", GS_PROBE_TEXT, OF_GPU(fabric_cluster)},
    {"fabric_clique", GS_PROBE_U32, OF_GPU(fabric_clique)},
    {"process_code", GS_PROBE_CODE, OF_GPU(process_code)},
    {"process_total", GS_PROBE_U32, OF_GPU(process_total)},
};

static const struct gs_probe_key node_keys[] = {
    {"vendor", GS_PROBE_TEXT, OF_NODE(vendor)},
    {"driver_loaded", GS_PROBE_FLAG, OF_NODE(driver_loaded)},
    {"driver", GS_PROBE_TEXT, OF_NODE(driver)},
    {"nvml", GS_PROBE_TEXT, OF_NODE(nvml)},
    {"init_code", GS_PROBE_CODE, OF_NODE(init_code)},
    {"count_code", GS_PROBE_CODE, OF_NODE(count_code)},
    {"pci_count", GS_PROBE_KNOWN, OF_NODE(pci_count)},
    {"told", GS_PROBE_U32, OF_NODE(told)},
    {"taken_us", GS_PROBE_I64, OF_NODE(taken_us)},
    {"took_us", GS_PROBE_I64, OF_NODE(took_us)},
};

const struct gs_probe_keys gs_probe_gpu_keys = {gpu_keys, COUNT(gpu_keys)};
const struct gs_probe_keys gs_probe_node_keys = {node_keys, COUNT(node_keys)};
