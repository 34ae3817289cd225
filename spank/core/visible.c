/* visible.c - CUDA_VISIBLE_DEVICES by CUDA's own rules; see visible.h.
 *
 * Pure. What CUDA ignores silently is ignored here the same way, never "repaired".
 */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "number_private.h"
#include "visible.h"

#define BLANKS " \t"

struct entry {
    const char *text;
    size_t len;
};

/* The next entry at *text, without blanks around it; false at the end of the list. */
static bool entry_next(const char **text, struct entry *ret_entry)
{
    const char *from = *text;
    size_t len;

    if (!from)
        return false;
    len = strcspn(from, ",");
    *text = from[len] ? from + len + 1 : NULL;
    while (len && strchr(BLANKS, *from)) {
        from++;
        len--;
    }
    while (len && strchr(BLANKS, from[len - 1]))
        len--;
    *ret_entry = (struct entry){from, len};
    return true;
}

static bool is_uuid(const struct entry *entry)
{
    return entry->len > 4
           && (memcmp(entry->text, "GPU-", 4) == 0
               || memcmp(entry->text, "MIG-", 4) == 0);
}

/* Index of the one device whose UUID starts with the entry, or -1. */
static int uuid_find(const struct entry *entry, uint32_t gpus, const char *const *uuids)
{
    int found = -1;

    for (uint32_t i = 0; uuids && i < gpus; i++) {
        if (strncmp(uuids[i], entry->text, entry->len) != 0)
            continue;
        if (uuids[i][entry->len] == '\0')
            return (int)i;
        if (found >= 0)
            return -1;
        found = (int)i;
    }
    return found;
}

int gs_visible_index(const char *value,
                     uint32_t gpus,
                     const char *const *uuids,
                     uint32_t *ret_index)
{
    bool seen[GS_VISIBLE_MAX] = {false};
    struct entry entry;
    int count = 0;

    if (gpus > GS_VISIBLE_MAX)
        gpus = GS_VISIBLE_MAX;
    if (!value) {
        for (uint32_t i = 0; i < gpus; i++)
            ret_index[i] = i;
        return (int)gpus;
    }
    while (entry_next(&value, &entry)) {
        uint64_t number;
        int index = -1;

        if (is_uuid(&entry))
            index = uuid_find(&entry, gpus, uuids);
        else if (gs_number_read(entry.text, entry.len, GS_VISIBLE_MAX, &number)
                 && number < gpus)
            index = (int)number;
        if (index < 0)
            break;
        if (seen[index])
            return 0;
        seen[index] = true;
        ret_index[count++] = (uint32_t)index;
    }
    return count;
}

int gs_visible_count(const char *value)
{
    struct entry seen[GS_VISIBLE_MAX];
    int count = 0;

    if (!value)
        return -1;
    while (count < GS_VISIBLE_MAX && entry_next(&value, &seen[count])) {
        const struct entry *entry = &seen[count];
        uint64_t number;

        if (!is_uuid(entry)
            && !gs_number_read(entry->text, entry->len, GS_VISIBLE_MAX - 1, &number))
            break;
        for (int i = 0; i < count; i++)
            if (seen[i].len == entry->len
                && memcmp(seen[i].text, entry->text, entry->len) == 0)
                return 0;
        count++;
    }
    return count;
}
