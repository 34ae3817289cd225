/* fake.c - a libnvidia-ml.so.1 whose GPUs are what a text file says; the file is read
 * again whenever it changes.
 *
 * Knobs: FAKE_NVML names the file, else it is the library's own path with ".ini". In
 * it: [node]            driver = 570.1, nvml = 12.570.1, count = 2 [gpu 0]           a
 * key per answer, see answers below; what is absent is "not supported" NVMLCALL = 15 in
 * either section: that call's return code hang = NVMLCALL   that call never returns
 *   vanished = 15     all calls for that GPU return this
 *   field.230 = 3:1   field value with its type; field.161.2 = the one of scope 2
 *   processes = 12:1048576 13:    pid and memory, none = not available
 *   fabric_version = 2   newest struct that nvmlDeviceGetGpuFabricInfoV takes
 * FAKE_NVML_LOG names a file that gets a line per call. Failure: exit 99 with a line.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake.h"

#define LINES 4096

static struct {
    struct timespec changed;
    off_t size;
    int count;
    struct {
        char section[32], key[64], value[512];
    } line[LINES];
} state;

static struct fake_gpu handles[FAKE_GPUS];

static const char *state_path(void)
{
    static char beside[4096];
    const char *given = getenv("FAKE_NVML");
    Dl_info self;

    if (given)
        return given;
    if (!dladdr(&state, &self))
        exit(99);
    snprintf(beside, sizeof(beside), "%s.ini", self.dli_fname);
    return beside;
}

static void load(FILE *file)
{
    char text[1024], section[32] = "", *at;

    state.count = 0;
    while (fgets(text, sizeof(text), file)) {
        text[strcspn(text, "\n")] = '\0';
        if (text[0] == '[') {
            snprintf(section,
                     sizeof(section),
                     "%.*s",
                     (int)strcspn(text + 1, "]"),
                     text + 1);
            continue;
        }
        at = strstr(text, " = ");
        if (!at || state.count == LINES)
            continue;
        *at = '\0';
        snprintf(state.line[state.count].section, 32, "%s", section);
        snprintf(state.line[state.count].key, 64, "%.63s", text);
        snprintf(state.line[state.count].value, 512, "%.511s", at + 3);
        state.count++;
    }
}

static void refresh(void)
{
    struct stat now;
    FILE *file;

    if (stat(state_path(), &now) < 0) {
        fprintf(stderr, "fake NVML: no state file %s\n", state_path());
        exit(99);
    }
    if (memcmp(&now.st_mtim, &state.changed, sizeof(state.changed)) == 0
        && now.st_size == state.size)
        return;
    file = fopen(state_path(), "re");
    if (!file)
        exit(99);
    load(file);
    fclose(file);
    state.changed = now.st_mtim;
    state.size = now.st_size;
}

const char *fake_text(const struct fake_gpu *gpu, const char *key)
{
    char section[32] = "node";

    if (gpu)
        snprintf(section, sizeof(section), "gpu %u", fake_index(gpu));
    for (int i = 0; i < state.count; i++)
        if (strcmp(state.line[i].section, section) == 0
            && strcmp(state.line[i].key, key) == 0)
            return state.line[i].value;
    return NULL;
}

int fake_number(const struct fake_gpu *gpu, const char *key, uint64_t *ret_number)
{
    const char *text = fake_text(gpu, key);

    if (!text)
        return FAKE_NOT_SUPPORTED;
    *ret_number = strtoull(text, NULL, 0);
    return 0;
}

static void note(const char *call)
{
    const char *path = getenv("FAKE_NVML_LOG");
    FILE *file = path ? fopen(path, "ae") : NULL;

    if (!file)
        return;
    fprintf(file, "%s\n", call);
    fclose(file);
}

int fake_enter(const struct fake_gpu *gpu, const char *call)
{
    uint64_t code = 0;
    const char *hang;

    refresh();
    note(call);
    hang = fake_text(gpu, "hang");
    while (hang && strcmp(hang, call) == 0)
        pause();
    if (gpu && fake_number(gpu, "vanished", &code) == 0)
        return (int)code;
    if (fake_number(gpu, call, &code) == 0)
        return (int)code;
    return 0;
}

int fake_copy(const struct fake_gpu *gpu, const char *key, char *to, unsigned size)
{
    const char *text = fake_text(gpu, key);
    size_t used = 0;

    if (!text)
        return FAKE_NOT_SUPPORTED;
    /* \xNN is any byte at all. */
    for (; *text; text++) {
        char byte = *text;
        if (text[0] == '\\' && text[1] == 'x') {
            char hex[3] = {text[2], text[3], '\0'};
            byte = (char)strtoul(hex, NULL, 16);
            text += 3;
        }
        if (used + 1 >= size)
            return FAKE_INSUFFICIENT_SIZE;
        to[used++] = byte;
    }
    to[used] = '\0';
    return 0;
}

struct fake_gpu *fake_handle(unsigned index)
{
    uint64_t count = 0;

    fake_number(NULL, "count", &count);
    return index < count && index < FAKE_GPUS ? &handles[index] : NULL;
}

unsigned fake_index(const struct fake_gpu *gpu)
{
    return (unsigned)(gpu - handles);
}
