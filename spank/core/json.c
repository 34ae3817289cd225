/* json.c - see json_private.h. */
#include <inttypes.h>
#include <stddef.h>

#include "json_private.h"

size_t gs_utf8_length(const unsigned char *s)
{
    static const struct {
        unsigned char lo, hi, second_lo, second_hi;
        size_t length;
    } row[] = {
        {0x20, 0x7e, 0x00, 0x00, 1},
        {0xc2, 0xdf, 0x80, 0xbf, 2},
        {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3},
        {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4},
        {0xf4, 0xf4, 0x80, 0x8f, 4},
    };

    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        if (s[0] < row[i].lo || s[0] > row[i].hi)
            continue;
        if (row[i].length > 1 && (s[1] < row[i].second_lo || s[1] > row[i].second_hi))
            return 0;
        for (size_t k = 2; k < row[i].length; k++)
            if ((s[k] & 0xc0) != 0x80)
                return 0;
        return row[i].length;
    }
    return 0;
}

void gs_json_string(struct gs_strbuf *buf, const char *value)
{
    const unsigned char *s = (const unsigned char *)value;
    int run = 0; /* characters before s that go as they are, in one piece */

    gs_strbuf_add(buf, "\"");
    for (size_t length = 1; *s; s += length ? length : 1) {
        length = gs_utf8_length(s);
        if (length && *s != '"' && *s != '\\') {
            run += (int)length;
            continue;
        }
        gs_strbuf_add(
            buf, length ? "%.*s\\%c" : "%.*s\\u%04x", run, (const char *)s - run, *s);
        run = 0;
    }
    gs_strbuf_add(buf, "%.*s\"", run, (const char *)s - run);
}

void gs_json_comma(struct gs_strbuf *buf)
{
    char last = buf->used ? buf->text[buf->used - 1] : '{';

    if (last != '{' && last != '[')
        gs_strbuf_add(buf, ",");
}

void gs_json_key(struct gs_strbuf *buf, const char *name)
{
    gs_json_comma(buf);
    gs_json_string(buf, name);
    gs_strbuf_add(buf, ":");
}

void gs_json_text(struct gs_strbuf *buf, const char *name, const char *value)
{
    gs_json_key(buf, name);
    gs_json_string(buf, value);
}

void gs_json_number(struct gs_strbuf *buf, const char *name, uint64_t value)
{
    gs_json_key(buf, name);
    gs_strbuf_add(buf, "%" PRIu64, value);
}

void gs_json_flag(struct gs_strbuf *buf, const char *name, bool value)
{
    gs_json_key(buf, name);
    gs_strbuf_add(buf, "%s", value ? "true" : "false");
}

void gs_json_seconds(struct gs_strbuf *buf, const char *name, int64_t us)
{
    gs_json_key(buf, name);
    if (us < 0)
        gs_strbuf_add(buf, "null");
    else
        gs_strbuf_add(buf, "%" PRId64 ".%06" PRId64, us / 1000000, us % 1000000);
}
