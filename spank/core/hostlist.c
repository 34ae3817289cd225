/* hostlist.c - expands Slurm's compressed node lists; see hostlist.h.
 *
 * An entry is cut into parts: literal text and the bracket group behind it. The names
 * are then counted through like an odometer, so nothing is built but the names.
 * A list that is not understood is an error, never a shorter list.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error_private.h"
#include "hostlist.h"
#include "number_private.h"

#define SEPARATORS ", \t\n"
#define REFUSED "()[]{}<>\"'`\\$;&|*?#" /* no host name has these */
#define PARTS_MAX 16
#define QUOTED 160   /* characters of the list in a message */
#define WIDTH_MAX 64 /* digits of one number */
#define NUMBER_MAX 999999999999999999ULL

struct span {
    uint64_t lo;
    int width;
    uint32_t first; /* place of lo among the numbers of its group */
};

struct part { /* literal text, then a bracket group unless count is 0 */
    const char *text;
    int len;
    struct span *span;
    uint32_t spans, count;
};

struct reader {
    const char *text;  /* the whole list, for messages */
    struct part *part; /* room for PARTS_MAX */
    uint32_t parts;
    struct span *spans; /* of the entry being read; the parts point into it */
    uint32_t spans_used;
    struct gs_names names;
    uint32_t room;
    struct gs_error *error;
};

static int refuse(const struct reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int refuse(const struct reader *r, const char *format, ...)
{
    char why[256];
    va_list args;

    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    return gs_error_set(r->error,
                        EINVAL,
                        "node list '%.*s%s': %s",
                        QUOTED,
                        r->text,
                        strlen(r->text) > QUOTED ? "..." : "",
                        why);
}

static int no_memory(const struct reader *r)
{
    return gs_error_set(r->error, ENOMEM, "out of memory while reading a node list");
}

/* Forgets the last entry and makes room for the ranges of the next: at most one for
 * each comma and each bracket. */
static int parts_reset(struct reader *r, const char *text, size_t len)
{
    size_t ranges = 1;

    for (size_t i = 0; i < len; i++)
        ranges += text[i] == ',' || text[i] == '[';
    free(r->spans);
    r->spans = calloc(ranges, sizeof(*r->spans));
    r->spans_used = 0;
    r->parts = 0;
    return r->spans ? 0 : no_memory(r);
}

static struct part *part_add(struct reader *r, const char *text, size_t len)
{
    if (r->parts == PARTS_MAX)
        return NULL;
    r->part[r->parts] = (struct part){.text = text, .len = (int)len};
    return &r->part[r->parts++];
}

/* One range "lo-hi" or "n" of len characters into the group. */
static int range_read(struct reader *r, struct part *part, const char *text, size_t len)
{
    size_t width = gs_digits_count(text, len);
    uint64_t lo, hi;

    if (width == 0 || (width < len && text[width] != '-'))
        return refuse(r,
                      "'%.*s' is not a number or a range such as 01-04",
                      (int)(len > 40 ? 40 : len),
                      text);
    if (width > WIDTH_MAX || !gs_number_read(text, width, NUMBER_MAX, &lo))
        return refuse(r, "the number %.*s is too large", 40, text);
    hi = lo;
    if (width < len
        && !gs_number_read(text + width + 1, len - width - 1, NUMBER_MAX, &hi))
        return refuse(r, "range '%.*s' has no proper end", (int)len, text);
    if (hi < lo)
        return refuse(r,
                      "range %.*s runs backwards; write the smaller number first",
                      (int)len,
                      text);
    if (hi - lo >= GS_RANGE_MAX)
        return refuse(r, "range %.*s names more than 65536 nodes", (int)len, text);
    part->span[part->spans++] = (struct span){lo, (int)width, part->count};
    r->spans_used++;
    part->count += (uint32_t)(hi - lo + 1);
    if (part->count > GS_HOSTS_MAX)
        return refuse(r, "more than 131072 nodes");
    return 0;
}

/* The inside of a bracket group, len characters. */
static int group_read(struct reader *r, struct part *part, const char *text, size_t len)
{
    const char *end = text + len;

    if (len == 0)
        return refuse(r, "a bracket is empty");
    part->span = r->spans + r->spans_used;
    for (const char *c = text; c <= end;) {
        const char *comma = memchr(c, ',', (size_t)(end - c));
        const char *stop = comma ? comma : end;
        int rc = range_read(r, part, c, (size_t)(stop - c));

        if (rc < 0)
            return rc;
        c = stop + 1;
    }
    return 0;
}

/* Cuts one entry into parts. */
static int entry_read(struct reader *r, const char *text, size_t len)
{
    const char *end = text + len;
    const char *from = text;

    while (from < end) {
        const char *open = memchr(from, '[', (size_t)(end - from));
        const char *stop = open ? open : end;
        const char *close;
        struct part *part = part_add(r, from, (size_t)(stop - from));
        int rc;

        if (!part)
            return refuse(r, "more than %d bracket groups in one name", PARTS_MAX - 1);
        if (!open)
            return 0;
        close = memchr(open, ']', (size_t)(end - open));
        if (!close)
            return refuse(r, "a bracket is not closed");
        rc = group_read(r, part, open + 1, (size_t)(close - open - 1));
        if (rc < 0)
            return rc;
        from = close + 1;
    }
    return 0;
}

/* Finds the index-th number of a group. */
static const struct span *span_find(const struct part *part, uint32_t index)
{
    uint32_t lo = 0, hi = part->spans;

    while (hi - lo > 1) {
        uint32_t middle = lo + (hi - lo) / 2;

        if (part->span[middle].first <= index)
            lo = middle;
        else
            hi = middle;
    }
    return &part->span[lo];
}

static int name_add(struct reader *r, const uint32_t *index)
{
    char text[GS_HOSTNAME_MAX + 1];
    size_t used = 0;

    for (uint32_t i = 0; i < r->parts; i++) {
        const struct part *part = &r->part[i];
        const struct span *span = part->count ? span_find(part, index[i]) : NULL;
        int n;

        if (span)
            n = snprintf(text + used,
                         sizeof(text) - used,
                         "%.*s%0*llu",
                         part->len,
                         part->text,
                         span->width,
                         (unsigned long long)(span->lo + index[i] - span->first));
        else
            n = snprintf(
                text + used, sizeof(text) - used, "%.*s", part->len, part->text);
        used += (size_t)n;
        if (used >= sizeof(text))
            return refuse(r, "a name is longer than %d characters", GS_HOSTNAME_MAX);
    }
    r->names.name[r->names.count] = strdup(text);
    if (!r->names.name[r->names.count])
        return no_memory(r);
    r->names.count++;
    return 0;
}

static int room_make(struct reader *r, uint32_t more)
{
    uint32_t want = r->names.count + more;
    char **name;

    if (want > GS_HOSTS_MAX)
        return refuse(r, "more than 131072 nodes");
    if (want <= r->room)
        return 0;
    if (want < r->room * 2)
        want = r->room * 2;
    name = realloc(r->names.name, want * sizeof(*name));
    if (!name)
        return no_memory(r);
    r->names.name = name;
    r->room = want;
    return 0;
}

/* Adds every name of the entry in r->part. Slurm treats the last group as the list and
 * the earlier ones as its prefix, whose first group it varies fastest. */
static int entry_expand(struct reader *r)
{
    uint32_t order[PARTS_MAX], groups = 0;
    uint64_t total = 1;
    int rc;

    for (uint32_t i = 0; i < r->parts; i++) {
        if (!r->part[i].count)
            continue;
        order[groups++] = i;
        total *= r->part[i].count;
        if (total > GS_HOSTS_MAX)
            return refuse(r, "more than 131072 nodes");
    }
    rc = room_make(r, (uint32_t)total);
    for (uint32_t n = 0; rc == 0 && n < total; n++) {
        uint32_t index[PARTS_MAX] = {0};
        uint32_t left = n;

        for (uint32_t g = 0; g < groups; g++) {
            uint32_t i = g == 0 ? order[groups - 1] : order[g - 1];

            index[i] = left % r->part[i].count;
            left /= r->part[i].count;
        }
        rc = name_add(r, index);
    }
    return rc;
}

/* Length of the entry at text: up to a separator outside brackets. */
static int entry_length(const struct reader *r, const char *text, size_t *ret_len)
{
    bool open = false;
    const char *c;

    for (c = text; *c && (open || !strchr(SEPARATORS, *c)); c++) {
        unsigned char byte = (unsigned char)*c;

        if (*c == (open ? ']' : '['))
            open = !open;
        else if (open && (*c == ' ' || *c == '\t' || *c == '\n'))
            return refuse(r, "a blank inside brackets");
        else if (byte <= 0x20 || byte >= 0x7f || strchr(REFUSED, *c))
            return refuse(r, "'%c' cannot be part of a name here", *c);
    }
    if (open)
        return refuse(r, "a bracket is not closed");
    *ret_len = (size_t)(c - text);
    return 0;
}

int gs_hostlist_expand(const char *text,
                       struct gs_names *ret_names,
                       struct gs_error *error)
{
    struct part part[PARTS_MAX];
    struct reader r = {.text = text ? text : "", .part = part, .error = error};
    const char *c = r.text;
    size_t len = 0;
    int rc = 0;

    for (c += strspn(c, SEPARATORS); *c; c += strspn(c, SEPARATORS)) {
        rc = entry_length(&r, c, &len);
        if (rc < 0)
            goto done;
        rc = parts_reset(&r, c, len);
        if (rc < 0)
            goto done;
        rc = entry_read(&r, c, len);
        if (rc < 0)
            goto done;
        rc = entry_expand(&r);
        if (rc < 0)
            goto done;
        c += len;
    }
    if (r.names.count == 0) {
        rc = refuse(&r, "it is empty; at least one node is needed");
        goto done;
    }
    *ret_names = r.names;
    r.names = (struct gs_names){0};
    rc = 0;
done:
    free(r.spans);
    gs_names_free(&r.names);
    return rc;
}

void gs_names_free(struct gs_names *names)
{
    if (!names)
        return;
    for (uint32_t i = 0; i < names->count; i++)
        free(names->name[i]);
    free(names->name);
    *names = (struct gs_names){0};
}
