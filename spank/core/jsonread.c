/* jsonread.c - see jsonread_private.h. */
#include <string.h>

#include "json_private.h"
#include "jsonread_private.h"
#include "number_private.h"

#define DEPTH 16

static bool fail(struct gs_json_reader *reader)
{
    reader->bad = true;
    return false;
}

static char skip_blanks(struct gs_json_reader *reader)
{
    reader->at += strspn(reader->at, " \t\r\n");
    return *reader->at;
}

static bool take(struct gs_json_reader *reader, char c)
{
    if (reader->bad || skip_blanks(reader) != c || !c)
        return fail(reader);
    reader->at++;
    return true;
}

bool gs_json_enter(struct gs_json_reader *reader, char open)
{
    if (!take(reader, open))
        return false;
    reader->inside = true;
    return true;
}

/* The comma before an element, or the end. */
static bool step(struct gs_json_reader *reader, char close)
{
    bool first = reader->inside;

    reader->inside = false;
    if (reader->bad)
        return false;
    if (skip_blanks(reader) == close) {
        reader->at++;
        return false;
    }
    return first || take(reader, ',');
}

bool gs_json_next(struct gs_json_reader *reader)
{
    return step(reader, ']');
}

bool gs_json_next_key(struct gs_json_reader *reader, char *ret_key, size_t size)
{
    return step(reader, '}') && gs_json_get_text(reader, ret_key, size)
           && take(reader, ':');
}

char gs_json_kind(const struct gs_json_reader *reader)
{
    const char *at = reader->at + strspn(reader->at, " \t\r\n");

    if (reader->bad)
        return '\0';
    return *at >= '0' && *at <= '9' ? '0' : *at;
}

static int hex_value(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *found = c ? strchr(digits, c | 0x20) : NULL;

    return found ? (int)(found - digits) : -1;
}

/* The byte behind a backslash; -1 = no escape. Leaves reader->at after it. */
static int escaped(struct gs_json_reader *reader)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *found = *reader->at ? strchr(from, *reader->at) : NULL;
    int code = 0;

    if (found) {
        reader->at++;
        return to[found - from];
    }
    if (*reader->at++ != 'u')
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_value(*reader->at);
        if (digit < 0)
            return -1;
        code = code * 16 + digit;
        reader->at++;
    }
    return code && code < 0x100 ? code : '?';
}

bool gs_json_get_text(struct gs_json_reader *reader, char *ret_text, size_t size)
{
    size_t used = 0;

    if (!take(reader, '"'))
        return false;
    while (*reader->at != '"') {
        int c = (unsigned char)*reader->at;
        if (c < 0x20 || used + 1 >= size)
            return fail(reader);
        reader->at++;
        if (c == '\\')
            c = escaped(reader);
        if (c < 0)
            return fail(reader);
        ret_text[used++] = (char)c;
    }
    reader->at++;
    ret_text[used] = '\0';
    return true;
}

bool gs_json_get_number(struct gs_json_reader *reader,
                        uint64_t max,
                        uint64_t *ret_number)
{
    size_t size;

    if (reader->bad)
        return false;
    skip_blanks(reader);
    size = gs_digits_count(reader->at, strnlen(reader->at, 24));
    if (!gs_number_read(reader->at, size, max, ret_number))
        return fail(reader);
    reader->at += size;
    return true;
}

bool gs_json_get_flag(struct gs_json_reader *reader, bool *ret_flag)
{
    if (reader->bad)
        return false;
    skip_blanks(reader);
    if (strncmp(reader->at, "true", 4) != 0 && strncmp(reader->at, "false", 5) != 0)
        return fail(reader);
    *ret_flag = *reader->at == 't';
    reader->at += *ret_flag ? 4 : 5;
    return true;
}

/* Passes over a string of any length. */
static bool skip_text(struct gs_json_reader *reader)
{
    if (!take(reader, '"'))
        return false;
    while (*reader->at && *reader->at != '"') {
        size_t size = gs_utf8_length((const unsigned char *)reader->at);
        if (!size)
            return fail(reader);
        reader->at += size;
        if (reader->at[-1] == '\\' && size == 1 && escaped(reader) < 0)
            return fail(reader);
    }
    return take(reader, '"');
}

static bool skip_digits(struct gs_json_reader *reader)
{
    size_t size = strspn(reader->at, "0123456789");

    reader->at += size;
    return size || fail(reader);
}

static bool skip_number(struct gs_json_reader *reader)
{
    skip_blanks(reader);
    reader->at += *reader->at == '-';
    if (!skip_digits(reader))
        return false;
    if (*reader->at == '.') {
        reader->at++;
        if (!skip_digits(reader))
            return false;
    }
    if (*reader->at != 'e' && *reader->at != 'E')
        return true;
    reader->at += reader->at[1] == '+' || reader->at[1] == '-' ? 2 : 1;
    return skip_digits(reader);
}

static bool skip_word(struct gs_json_reader *reader)
{
    static const char *const words[] = {"true", "false", "null"};

    skip_blanks(reader);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t size = strlen(words[i]);
        if (strncmp(reader->at, words[i], size) != 0)
            continue;
        reader->at += size;
        return true;
    }
    return fail(reader);
}

/* Calls itself DEPTH times at most. */
static bool skip_value(struct gs_json_reader *reader, int depth)
{
    char kind = gs_json_kind(reader);
    bool object = kind == '{';

    if (kind == '"')
        return skip_text(reader);
    if (kind == '0' || kind == '-')
        return skip_number(reader);
    if (kind != '{' && kind != '[')
        return skip_word(reader);
    if (depth == DEPTH || !gs_json_enter(reader, kind))
        return fail(reader);
    while (step(reader, object ? '}' : ']'))
        if ((object && (!skip_text(reader) || !take(reader, ':')))
            || !skip_value(reader, depth + 1))
            return false;
    return !reader->bad;
}

bool gs_json_skip(struct gs_json_reader *reader)
{
    return !reader->bad && skip_value(reader, 0);
}

bool gs_json_at_end(struct gs_json_reader *reader)
{
    return !reader->bad && skip_blanks(reader) == '\0';
}
