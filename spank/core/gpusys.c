/* gpusys.c - see gpusys_private.h. A file that cannot be read is "not known". */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpusys_private.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

void gs_progress_tell(struct gs_nvml_progress *progress,
                      const char *call,
                      const char *gpu)
{
    char line[3 * GS_GPU_TEXT];
    size_t size, sent = 0;

    gs_gpu_text(progress->call, call, strlen(call));
    gs_gpu_text(progress->gpu, gpu, strlen(gpu));
    progress->queries++;
    if (progress->out < 0)
        return;
    size = (size_t)snprintf(line,
                            sizeof(line),
                            "{\"asking\":\"%s\",\"gpu\":\"%s\"}\n",
                            progress->call,
                            progress->gpu);
    while (sent < size) {
        ssize_t n = write(progress->out, line + sent, size - sent);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        sent += (size_t)n;
    }
}

void gs_gpu_text(char ret_text[GS_GPU_TEXT], const char *text, size_t size)
{
    size_t i;

    for (i = 0; i + 1 < GS_GPU_TEXT && i < size && text[i]; i++)
        ret_text[i] = text[i] < 0x20 || text[i] > 0x7e ? '?' : text[i];
    while (i && ret_text[i - 1] == ' ')
        i--;
    ret_text[i] = '\0';
}

bool gs_pci_normal(const char *text, char ret_pci[GS_GPU_TEXT])
{
    static const char ends[] = {':', ':', '.', '\0'};
    unsigned long part[4];
    char *end;

    for (size_t i = 0; i < COUNT(part); i++) {
        if (!strchr("0123456789abcdefABCDEF", *text) || !*text)
            return false;
        errno = 0;
        part[i] = strtoul(text, &end, 16);
        if (*end != ends[i] || errno || part[i] > (i ? 0xff : 0xffffffff))
            return false;
        text = end + 1;
    }
    snprintf(ret_pci,
             GS_GPU_TEXT,
             "%04lx:%02lx:%02lx.%lx",
             part[0],
             part[1],
             part[2],
             part[3]);
    return true;
}

int gs_sys_read(const char *path, char *ret_text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t got;
    int rc;

    if (fd < 0)
        return -errno;
    got = read(fd, ret_text, size - 1);
    rc = got < 0 ? -errno : 0;
    close(fd);
    if (rc < 0)
        return rc;
    while (got && (ret_text[got - 1] == '\n' || ret_text[got - 1] == ' '))
        got--;
    ret_text[got] = '\0';
    return 0;
}

bool gs_sys_module(const char *root, const char *name)
{
    char path[GS_SYS_PATH], state[GS_SYS_TEXT];

    snprintf(path, sizeof(path), "%s/sys/module/%s/initstate", root, name);
    return gs_sys_read(path, state, sizeof(state)) == 0 && strcmp(state, "live") == 0;
}

/* 3D and other display controllers, processing accelerators; last, VGA controllers,
 * which every server has for its console. */
static const char *const CLASSES[] = {"0x0302", "0x0380", "0x1200", "0x0300"};

static bool bus_text(const char *root,
                     const char *device,
                     const char *file,
                     char ret_text[GS_SYS_TEXT])
{
    char path[GS_SYS_PATH];

    snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s/%s", root, device, file);
    return gs_sys_read(path, ret_text, GS_SYS_TEXT) == 0;
}

/* Whether a device is of one of the first classes. */
static bool is_class(const char *root, const char *device, size_t count)
{
    char text[GS_SYS_TEXT];

    if (!bus_text(root, device, "class", text))
        return false;
    for (size_t i = 0; i < count; i++)
        if (strncmp(text, CLASSES[i], strlen(CLASSES[i])) == 0)
            return true;
    return false;
}

static bool is_gpu(const char *root, const char *device, const char *vendor)
{
    char text[GS_SYS_TEXT];

    return bus_text(root, device, "vendor", text) && strcmp(text, vendor) == 0
           && is_class(root, device, COUNT(CLASSES));
}

bool gs_bus_other(const char *root, char ret_vendor[GS_GPU_TEXT])
{
    char path[GS_SYS_PATH], vendor[GS_SYS_TEXT], pci[GS_GPU_TEXT];
    const struct dirent *entry;
    bool found = false;
    DIR *folder;

    snprintf(path, sizeof(path), "%s/sys/bus/pci/devices", root);
    folder = opendir(path);
    while (folder && !found && (entry = readdir(folder))) {
        found = gs_pci_normal(entry->d_name, pci)
                && is_class(root, entry->d_name, COUNT(CLASSES) - 1)
                && bus_text(root, entry->d_name, "vendor", vendor)
                && strcmp(vendor, "0x10de") != 0 && strcmp(vendor, "0x1002") != 0;
    }
    if (folder)
        closedir(folder);
    if (found)
        gs_gpu_text(ret_vendor, vendor, strlen(vendor));
    return found;
}

static int by_address(const void *a, const void *b)
{
    return strcmp(a, b);
}

void gs_bus_read(const char *root, const char *vendor, struct gs_bus *ret_bus)
{
    char path[GS_SYS_PATH], pci[GS_GPU_TEXT];
    struct dirent *entry;
    DIR *folder;

    ret_bus->count = -1;
    snprintf(path, sizeof(path), "%s/sys/bus/pci/devices", root);
    folder = opendir(path);
    if (!folder)
        return;
    ret_bus->count = 0;
    while ((entry = readdir(folder))) {
        if (!gs_pci_normal(entry->d_name, pci) || !is_gpu(root, entry->d_name, vendor))
            continue;
        if (ret_bus->count < GS_GPU_MAX)
            memcpy(ret_bus->pci[ret_bus->count], pci, sizeof(pci));
        ret_bus->count++;
    }
    closedir(folder);
    qsort(ret_bus->pci,
          ret_bus->count < GS_GPU_MAX ? (size_t)ret_bus->count : GS_GPU_MAX,
          sizeof(ret_bus->pci[0]),
          by_address);
}
