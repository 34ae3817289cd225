/* xid.c - read the NVIDIA driver's lines in the kernel log; see xid.h.
 *
 * The text is not trusted: any process may write to the kernel log, so nothing is read
 * past the given length and what does not fit the form is some other line.
 */
#include <stdio.h>
#include <string.h>

#include "number_private.h"
#include "xid.h"

#define SECOND 1000000

struct span {
    const char *at;
    size_t len;
};

static struct span skip(struct span s, size_t n)
{
    n = n > s.len ? s.len : n;
    return (struct span){s.at + n, s.len - n};
}

/* The part after the first occurrence of word; at is NULL if there is none. */
static struct span after(struct span s, const char *word)
{
    const char *found = memmem(s.at, s.len, word, strlen(word));

    if (!found)
        return (struct span){NULL, 0};
    return skip(s, (size_t)(found - s.at) + strlen(word));
}

static bool has(struct span s, const char *word)
{
    return after(s, word).at != NULL;
}

static bool starts(struct span s, const char *word)
{
    return s.len >= strlen(word) && memcmp(s.at, word, strlen(word)) == 0;
}

/* Takes the number at the front of s. */
static bool take_number(struct span *s, uint64_t max, uint64_t *ret_number)
{
    size_t digits = gs_digits_count(s->at, s->len);

    if (!gs_number_read(s->at, digits, max, ret_number))
        return false;
    *s = skip(*s, digits);
    return true;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Takes one hexadecimal field and, unless it is the last, the separator after it. */
static bool take_hex(struct span *s, char end, unsigned max, unsigned *ret_number)
{
    unsigned number = 0;
    size_t n = 0;

    for (; n < s->len && n < 8 && hex_digit(s->at[n]) >= 0; n++)
        number = number << 4 | (unsigned)hex_digit(s->at[n]);
    if (n == 0 || number > max)
        return false;
    *s = skip(*s, n);
    if (end != '\0') {
        if (s->len == 0 || s->at[0] != end)
            return false;
        *s = skip(*s, 1);
    }
    *ret_number = number;
    return true;
}

bool gs_pci_normalise(const char *text, size_t len, char out[GS_XID_PCI])
{
    struct span s = {text, len};
    unsigned domain, bus, device, function = 0;

    if (starts(s, "PCI:"))
        s = skip(s, 4);
    if (!take_hex(&s, ':', 0xffffff, &domain) || !take_hex(&s, ':', 0xff, &bus)
        || !take_hex(&s, '\0', 0x1f, &device))
        return false;
    if (starts(s, ".")) {
        s = skip(s, 1);
        if (!take_hex(&s, '\0', 7, &function))
            return false;
    }
    if (s.len > 0)
        return false;
    snprintf(out, GS_XID_PCI, "%04x:%02x:%02x.%x", domain, bus, device, function);
    return true;
}

/* Days since 1970-01-01 of a date of the proleptic Gregorian calendar. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    int64_t era, of_era, of_year;

    year -= month <= 2;
    era = year / 400;
    of_era = year - era * 400;
    of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* ".123456": microseconds of a decimal fraction, 0 if there is none. */
static int64_t take_fraction(struct span *s)
{
    int64_t us = 0, unit = SECOND / 10;

    if (s->len == 0 || (s->at[0] != '.' && s->at[0] != ','))
        return 0;
    *s = skip(*s, 1);
    for (; s->len > 0 && gs_digits_count(s->at, 1) == 1; *s = skip(*s, 1)) {
        us += (s->at[0] - '0') * unit;
        unit /= 10;
    }
    return us;
}

/* "+0200", "+02:00" or "Z" as seconds east of UTC. */
static bool take_offset(struct span s, int64_t *ret_seconds)
{
    uint64_t hours, minutes;
    bool west;

    if (starts(s, "Z")) {
        *ret_seconds = 0;
        return true;
    }
    if (s.len < 5 || (s.at[0] != '+' && s.at[0] != '-'))
        return false;
    west = s.at[0] == '-';
    s = skip(s, 1);
    if (!gs_number_read(s.at, 2, 14, &hours))
        return false;
    s = skip(s, s.len > 2 && s.at[2] == ':' ? 3 : 2);
    if (s.len < 2 || !gs_number_read(s.at, 2, 59, &minutes))
        return false;
    *ret_seconds = (int64_t)(hours * 60 + minutes) * 60 * (west ? -1 : 1);
    return true;
}

/* "2026-11-30T17:20:30.123456+00:00 ..." */
static bool read_wall(struct span s, int64_t *ret_us)
{
    static const char SEPARATORS[] = "--T::";
    static const uint64_t MOST[] = {9999, 12, 31, 23, 59, 60};
    uint64_t part[6];
    int64_t us, offset;

    for (int i = 0; i < 6; i++) {
        if (!take_number(&s, MOST[i], &part[i]) || s.len == 0)
            return false;
        if (i == 5)
            break;
        if (s.at[0] != SEPARATORS[i] && !(i == 2 && s.at[0] == ' '))
            return false;
        s = skip(s, 1);
    }
    us = take_fraction(&s);
    if (part[0] < 1970 || part[1] == 0 || part[2] == 0 || !take_offset(s, &offset))
        return false;
    us += (days_of((int64_t)part[0], (int64_t)part[1], (int64_t)part[2]) * 86400
           + (int64_t)(part[3] * 3600 + part[4] * 60 + part[5]) - offset)
          * SECOND;
    *ret_us = us;
    return true;
}

/* "[ 1234.567890]" somewhere before the driver's own text. */
static bool read_bracket(struct span s, int64_t *ret_us)
{
    uint64_t seconds;

    for (s = after(s, "["); s.at; s = after(s, "[")) {
        struct span rest = s;

        while (rest.len > 0 && rest.at[0] == ' ')
            rest = skip(rest, 1);
        if (!take_number(&rest, INT64_MAX / SECOND - 1, &seconds) || !starts(rest, "."))
            continue;
        *ret_us = (int64_t)seconds * SECOND + take_fraction(&rest);
        if (starts(rest, "]"))
            return true;
    }
    return false;
}

/* "6,1234,5678901,-;": priority, sequence, microseconds since boot. */
static bool read_kmsg(struct span s, int64_t *ret_us)
{
    uint64_t skipped, us;

    for (int i = 0; i < 2; i++) {
        if (!take_number(&s, UINT64_MAX, &skipped) || !starts(s, ","))
            return false;
        s = skip(s, 1);
    }
    if (!take_number(&s, INT64_MAX, &us) || (!starts(s, ",") && !starts(s, ";")))
        return false;
    *ret_us = (int64_t)us;
    return true;
}

static void read_time(struct span head, struct gs_xid *xid)
{
    xid->clock = GS_CLOCK_NONE;
    xid->time_us = 0;
    if (read_kmsg(head, &xid->time_us) || read_bracket(head, &xid->time_us))
        xid->clock = GS_CLOCK_BOOT;
    else if (read_wall(head, &xid->time_us))
        xid->clock = GS_CLOCK_WALL;
}

/* The process in "pid=1234, name=python, the rest" or "pid='<unknown>', ..."; leaves
 * the rest in *text. */
static int64_t take_pid(struct span *text)
{
    struct span s = after(*text, "pid=");
    uint64_t pid;

    if (!s.at || s.at != text->at + 4)
        return -1;
    *text = after(s, ", ");
    if (!text->at)
        *text = skip(s, s.len);
    if (starts(s, "'"))
        s = skip(s, 1);
    return take_number(&s, INT32_MAX, &pid) ? (int64_t)pid : -1;
}

/* Keeps what a person may read of a text that others wrote. */
static void copy_text(char out[GS_XID_TEXT], struct span s)
{
    size_t n = 0;

    for (; n < s.len && n < GS_XID_TEXT - 1; n++)
        out[n] = s.at[n] >= ' ' && s.at[n] != 0x7f ? s.at[n] : '?';
    out[n] = '\0';
}

/* "(PCI:0000:1a:00): 79, ..." after "Xid ". */
static bool read_event(struct span s, struct gs_xid *xid)
{
    struct span pci;
    uint64_t number;

    if (!starts(s, "("))
        return false;
    pci = skip(s, 1);
    s = after(pci, "): ");
    if (!s.at)
        return false;
    pci.len = (size_t)(s.at - pci.at) - 3;
    if (!gs_pci_normalise(pci.at, pci.len, xid->pci)
        || !take_number(&s, UINT32_MAX, &number))
        return false;
    xid->number = (uint32_t)number;
    if (starts(s, ", "))
        s = skip(s, 2);
    xid->pid = take_pid(&s);
    copy_text(xid->text, s);
    return true;
}

enum gs_klog gs_xid_read(const char *line, size_t len, struct gs_xid *ret_xid)
{
    struct gs_xid xid = {.times = 1};
    struct span s = {line, len}, event;

    while (s.len > 0 && (s.at[s.len - 1] == '\n' || s.at[s.len - 1] == '\r'))
        s.len--;
    if (has(s, "NVRM: loading NVIDIA"))
        return GS_KLOG_LOADED;
    event = after(s, "NVRM: Xid ");
    if (!event.at) {
        event = after(s, ": SXid ");
        xid.nvswitch = true;
        if (!event.at || !has(s, "nvidia-nvswitch"))
            return GS_KLOG_OTHER;
    }
    if (!read_event(event, &xid))
        return GS_KLOG_OTHER;
    xid.fatal = starts((struct span){xid.text, strlen(xid.text)}, "Fatal");
    /* The lines after an SXid's first only add data to it. */
    if (xid.nvswitch && !xid.fatal && strncmp(xid.text, "Non-fatal", 9) != 0)
        return GS_KLOG_OTHER;
    read_time((struct span){s.at, (size_t)(event.at - s.at)}, &xid);
    *ret_xid = xid;
    return xid.nvswitch ? GS_KLOG_SXID : GS_KLOG_XID;
}
