/* hostfold.c - names and ranks -> short lists for messages; see hostlist.h.
 *
 * O(n log n), and O(n) for what usually comes sorted: 131072 ranks or 16384 names
 * take a few milliseconds. Returns NULL when memory runs out.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostlist.h"
#include "number_private.h"
#include "strbuf_private.h"

#define DIGITS_MAX 18 /* more digits are part of the text, not a number */

struct host {
    const char *name;
    size_t prefix; /* characters before the number */
    size_t width;  /* digits of the number, 0 = none */
    uint64_t number;
};

static void host_read(struct host *host, const char *name)
{
    size_t len = strlen(name);
    size_t digits = 0;

    while (digits < len && gs_digits_count(name + len - digits - 1, 1))
        digits++;
    *host = (struct host){.name = name, .prefix = len};
    if (digits == 0 || digits > DIGITS_MAX)
        return;
    host->prefix = len - digits;
    host->width = digits;
    gs_number_read(name + host->prefix, digits, UINT64_MAX, &host->number);
}

/* Compares two prefixes with their numbers by value: "rack2-n" before "rack10-n". */
static int prefix_compare(const struct host *x, const struct host *y)
{
    const char *a = x->name, *b = y->name;
    const char *a_end = a + x->prefix, *b_end = b + y->prefix;

    if (x->prefix == y->prefix && memcmp(a, b, x->prefix) == 0)
        return 0;
    while (a < a_end && b < b_end) {
        size_t m = gs_digits_count(a, (size_t)(a_end - a));
        size_t n = gs_digits_count(b, (size_t)(b_end - b));
        int order;

        if (m == 0 || n == 0) {
            if (*a != *b)
                return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
            a++;
            b++;
            continue;
        }
        for (; m > 1 && *a == '0'; m--)
            a++;
        for (; n > 1 && *b == '0'; n--)
            b++;
        if (m != n)
            return m < n ? -1 : 1;
        order = memcmp(a, b, m);
        if (order)
            return order;
        a += m;
        b += n;
    }
    if (a < a_end || b < b_end)
        return a < a_end ? 1 : -1;
    /* Equal by value, as "a1-" and "a01-": the longer first, then by text. */
    if (x->prefix != y->prefix)
        return x->prefix < y->prefix ? -1 : 1;
    return memcmp(x->name, y->name, x->prefix);
}

static int host_compare(const void *x, const void *y)
{
    const struct host *a = x, *b = y;
    int order = prefix_compare(a, b);

    if (order)
        return order;
    if (!a->width != !b->width)
        return a->width ? 1 : -1;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return (a->width > b->width) - (a->width < b->width);
}

/* Is b the number after a when counted on at the width of low? */
static bool follows(const struct host *low, const struct host *a, const struct host *b)
{
    char text[DIGITS_MAX + 2];
    int n;

    if (b->number != a->number + 1 || b->number - low->number >= GS_RANGE_MAX)
        return false;
    n = snprintf(
        text, sizeof(text), "%0*llu", (int)low->width, (unsigned long long)b->number);
    return (size_t)n == b->width;
}

/* Writes hosts[0..count), which share a prefix and all have numbers. */
static void group_write(struct gs_strbuf *out, const struct host *hosts, uint32_t count)
{
    bool brackets = count > 1;

    gs_strbuf_add(out, "%.*s", (int)hosts->prefix, hosts->name);
    gs_strbuf_add(out, "%s", brackets ? "[" : "");
    for (uint32_t i = 0, next; i < count; i = next) {
        const char *number = hosts[i].name + hosts[i].prefix;

        for (next = i + 1; next < count; next++)
            if (!follows(&hosts[i], &hosts[next - 1], &hosts[next]))
                break;
        gs_strbuf_add(out, "%s%s", i ? "," : "", number);
        if (next - i > 1)
            gs_strbuf_add(out, "-%s", hosts[next - 1].name + hosts[next - 1].prefix);
    }
    gs_strbuf_add(out, "%s", brackets ? "]" : "");
}

static uint32_t hosts_sort_unique(struct host *hosts, uint32_t count)
{
    uint32_t kept = 0;
    uint32_t i = 1;

    while (i < count && host_compare(&hosts[i - 1], &hosts[i]) <= 0)
        i++;
    if (i < count)
        qsort(hosts, count, sizeof(*hosts), host_compare);
    for (i = 0; i < count; i++)
        if (kept == 0 || host_compare(&hosts[kept - 1], &hosts[i]) != 0)
            hosts[kept++] = hosts[i];
    return kept;
}

char *gs_hostlist_fold(const char *const *names, uint32_t count)
{
    struct gs_strbuf out = {0};
    struct host *hosts = calloc(count ? count : 1, sizeof(*hosts));

    if (!hosts)
        return NULL;
    for (uint32_t i = 0; i < count; i++)
        host_read(&hosts[i], names[i]);
    count = hosts_sort_unique(hosts, count);
    for (uint32_t i = 0, next; i < count; i = next) {
        for (next = i + 1; next < count && hosts[i].width && hosts[next].width; next++)
            if (prefix_compare(&hosts[i], &hosts[next]) != 0)
                break;
        gs_strbuf_add(&out, "%s", i ? "," : "");
        if (hosts[i].width)
            group_write(&out, &hosts[i], next - i);
        else
            gs_strbuf_add(&out, "%s", hosts[i].name);
    }
    free(hosts);
    return gs_strbuf_take(&out);
}

static int rank_compare(const void *x, const void *y)
{
    uint32_t a, b;

    memcpy(&a, x, sizeof(a));
    memcpy(&b, y, sizeof(b));
    return (a > b) - (a < b);
}

char *gs_ranks_fold(const uint32_t *ranks, uint32_t count)
{
    struct gs_strbuf out = {0};
    uint32_t *sorted = malloc((count ? count : 1) * sizeof(*sorted));
    bool in_order = true;

    if (!sorted)
        return NULL;
    for (uint32_t i = 0; i < count; i++) {
        sorted[i] = ranks[i];
        in_order = in_order && (i == 0 || sorted[i - 1] <= sorted[i]);
    }
    if (!in_order)
        qsort(sorted, count, sizeof(*sorted), rank_compare);
    for (uint32_t i = 0, next; i < count; i = next) {
        for (next = i + 1; next < count; next++)
            if (sorted[next] - sorted[next - 1] > 1)
                break;
        gs_strbuf_add(&out, "%s%u", i ? "," : "", sorted[i]);
        if (sorted[next - 1] != sorted[i])
            gs_strbuf_add(&out, "-%u", sorted[next - 1]);
    }
    free(sorted);
    return gs_strbuf_take(&out);
}

void gs_text_free(char *text)
{
    free(text);
}
