/* nvml_peers.c - which GPUs of the node reach each other over NVLink; see nvml.h.
 *
 * Asked only behind NVSwitches: there every GPU has to reach every other. Where links
 * go from GPU to GPU, boards and bridges join some and leave others apart by design,
 * and NVML answers both alike. What is not asked stays GS_GPU_NOT_ASKED.
 */
#include <string.h>

#include "nvml_private.h"

#define REMOTE_SWITCH 2
#define REMOTE_UNKNOWN 255
#define P2P_NVLINK 2
#define P2P_OK 0

static uint64_t links_up(const struct gs_gpu *gpu)
{
    const struct gs_gpu_value *mig = &gpu->values[GS_GPU_MIG_MODE];
    const struct gs_gpu_value *up = &gpu->values[GS_GPU_NVLINK_ACTIVE];

    /* MIG switches NVLink off. A GPU without links is not its peers' fault. */
    return up->code || (!mig->code && mig->value == 1) ? 0 : up->value;
}

/* 0 = its links lead to a switch; NOT_SUPPORTED = to other GPUs; else why not known. */
static int behind_switch(struct gs_nvml_gpu *gpu)
{
    typedef int (*remote_fn)(void *, unsigned, unsigned *);
    remote_fn get =
        (remote_fn)gs_nvml_find(gpu->nvml, "nvmlDeviceGetNvLinkRemoteDeviceType");
    int code = get ? GS_NVML_NOT_SUPPORTED : GS_NVML_FUNCTION_NOT_FOUND;

    for (unsigned link = 0; get && link < GS_GPU_LINKS; link++) {
        unsigned type = REMOTE_UNKNOWN;
        int own = get(gpu->handle, link, &type);

        if (!own && type == REMOTE_SWITCH)
            return 0;
        if (own == GS_NVML_INVALID_ARGUMENT)
            break;
        /* A link that is down does not know where it leads to. */
        if (own && own != GS_NVML_NOT_SUPPORTED)
            code = own;
    }
    return code;
}

/* Peers it cannot reach; *ret_peers counts all that it should. */
static int count_broken(struct gs_nvml_gpu *gpu,
                        const struct gs_gpus *gpus,
                        uint32_t *ret_peers,
                        uint32_t *ret_broken)
{
    typedef int (*status_fn)(void *, void *, unsigned, unsigned *);
    status_fn get = (status_fn)gs_nvml_find(gpu->nvml, "nvmlDeviceGetP2PStatus");

    for (uint32_t i = 0; i < gpus->count && i < GS_GPU_MAX; i++) {
        void *peer = gpu->nvml->handles[i];
        unsigned status = P2P_OK;
        int code;

        if (!peer || &gpus->gpus[i] == gpu->out || !links_up(&gpus->gpus[i]))
            continue;
        (*ret_peers)++;
        code = get ? get(gpu->handle, peer, P2P_NVLINK, &status)
                   : GS_NVML_FUNCTION_NOT_FOUND;
        if (code)
            return code;
        *ret_broken += status != P2P_OK;
    }
    return 0;
}

void gs_nvml_read_peers(struct gs_nvml *nvml, struct gs_gpus *gpus)
{
    for (uint32_t i = 0; i < gpus->count && i < GS_GPU_MAX; i++) {
        struct gs_nvml_gpu gpu = {nvml, nvml->handles[i], &gpus->gpus[i]};
        uint32_t peers = 0, broken = 0;
        int code;

        if (!gpu.handle || !links_up(gpu.out))
            continue;
        memcpy(nvml->pci, gpu.out->pci, sizeof(nvml->pci));
        code = behind_switch(&gpu);
        if (!code)
            code = count_broken(&gpu, gpus, &peers, &broken);
        if (code || peers)
            gs_nvml_set(&gpu, GS_GPU_P2P_BROKEN, code, broken);
    }
    nvml->pci[0] = '\0';
}
