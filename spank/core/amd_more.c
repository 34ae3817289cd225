/* amd_more.c - an AMD GPU's error counters, bad pages and processes; see amd_private.h.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "amd_private.h"

/* A counter file has the lines "ue: 0" and "ce: 12". */
static bool add_counts(const char *text, uint64_t *unc, uint64_t *cor)
{
    const char *ue = strstr(text, "ue:"), *ce = strstr(text, "ce:");

    if (!ue || !ce)
        return false;
    *unc += strtoull(ue + 3, NULL, 10);
    *cor += strtoull(ce + 3, NULL, 10);
    return true;
}

static void read_counters(struct gs_amd_gpu *gpu, const char *folder_path)
{
    uint64_t unc = 0, cor = 0;
    char text[GS_SYS_TEXT];
    uint16_t code = 3, own;
    struct dirent *entry;
    DIR *folder = opendir(folder_path);

    while (folder && (entry = readdir(folder))) {
        const char *end = strstr(entry->d_name, "_err_count");
        if (!end || end[strlen("_err_count")])
            continue;
        own = gs_amd_text(gpu, folder_path, entry->d_name, text);
        if (!own && !add_counts(text, &unc, &cor))
            own = 999;
        /* A block that cannot be read leaves the sum unknown. */
        if (code == 3 || own)
            code = own;
        if (own)
            break;
    }
    if (folder)
        closedir(folder);
    gs_amd_set(gpu, GS_GPU_ECC_UNC_VOLATILE, code, unc);
    gs_amd_set(gpu, GS_GPU_ECC_COR_VOLATILE, code, cor);
}

/* Lines are "0x00000001 : 0x00001000 : R": R retired, P pending, F could not be. */
static void read_pages(struct gs_amd_gpu *gpu, const char *folder)
{
    uint64_t retired = 0, pending = 0;
    char path[2 * GS_SYS_PATH], line[GS_SYS_TEXT];
    uint16_t code;
    FILE *file;

    code = gs_amd_text(gpu, folder, "gpu_vram_bad_pages", line);
    snprintf(path, sizeof(path), "%s/gpu_vram_bad_pages", folder);
    file = code ? NULL : fopen(path, "re");
    while (file && fgets(line, sizeof(line), file)) {
        const char *last = strrchr(line, ':');
        if (!last)
            continue;
        retired += strchr(last, 'R') || strchr(last, 'F');
        pending += strchr(last, 'P') != NULL;
    }
    if (file)
        fclose(file);
    gs_amd_set(gpu, GS_GPU_RETIRED_DBE, code, retired);
    gs_amd_set(gpu, GS_GPU_RETIRED_PENDING, code, pending > 0);
}

void gs_amd_read_ras(struct gs_amd_gpu *gpu)
{
    char folder[GS_SYS_PATH + 8];

    snprintf(folder, sizeof(folder), "%s/ras", gpu->device);
    read_counters(gpu, folder);
    read_pages(gpu, folder);
}

/* The value behind a word in a node's properties, 0 = none. */
static uint64_t property(const char *text, const char *word)
{
    size_t size = strlen(word);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, word, size) == 0 && line[size] == ' ')
            return strtoull(line + size, NULL, 10);
    }
    return 0;
}

/* Whether a topology node is this GPU: domain, and bus << 8 | device << 3 | function.
 */
static bool is_node(const struct gs_amd_gpu *gpu, const char *node)
{
    unsigned domain, bus, device, function;
    char path[3 * GS_SYS_PATH], text[4096];

    snprintf(path, sizeof(path), "%s/properties", node);
    if (gs_sys_read(path, text, sizeof(text)) < 0
        || sscanf(gpu->out->pci, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4)
        return false;
    return property(text, "domain") == domain
           && property(text, "location_id") == (bus << 8 | device << 3 | function)
           && property(text, "simd_count") > 0;
}

/* The compute driver's own number of this GPU, 0 = it has none. */
static uint64_t find_id(struct gs_amd_gpu *gpu)
{
    char path[GS_SYS_PATH], node[2 * GS_SYS_PATH];
    uint64_t id = 0;
    struct dirent *entry;
    DIR *folder;

    snprintf(path, sizeof(path), "%s/sys/class/kfd/kfd/topology/nodes", gpu->root);
    folder = opendir(path);
    while (folder && !id && (entry = readdir(folder))) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(node, sizeof(node), "%s/%.255s", path, entry->d_name);
        if (is_node(gpu, node) && gs_amd_number(gpu, node, "gpu_id", &id))
            id = 0;
    }
    if (folder)
        closedir(folder);
    return id;
}

void gs_amd_read_processes(struct gs_amd_gpu *gpu)
{
    char path[GS_SYS_PATH], folder_path[2 * GS_SYS_PATH], file[64];
    uint64_t id = find_id(gpu), memory, pid;
    struct dirent *entry;
    DIR *folder;

    snprintf(path, sizeof(path), "%s/sys/class/kfd/kfd/proc", gpu->root);
    folder = id ? opendir(path) : NULL;
    gpu->out->process_code = folder ? 0 : 3;
    snprintf(file, sizeof(file), "vram_%" PRIu64, id);
    while (folder && (entry = readdir(folder))) {
        pid = strtoull(entry->d_name, NULL, 10);
        snprintf(folder_path, sizeof(folder_path), "%s/%.255s", path, entry->d_name);
        memory = 0;
        /* A process has a file for every GPU; on those it does not use it is 0. */
        if (!pid || pid > UINT32_MAX || gs_amd_number(gpu, folder_path, file, &memory)
            || !memory)
            continue;
        gpu->out->process_total++;
        if (gpu->out->process_count < GS_GPU_PROCESSES)
            gpu->out->processes[gpu->out->process_count++] =
                (struct gs_gpu_process){.pid = (uint32_t)pid, .memory = memory};
    }
    if (folder)
        closedir(folder);
}
