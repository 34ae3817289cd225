/* jsonread_private.h - JSON read piece by piece from one text, for C only.
 *
 * Made for text from a process that may have gone mad: nothing is allocated, nothing
 * recurses beyond 16 levels, and the first thing that is not JSON, or not what was
 * asked for, sets `bad`, after which every call fails.
 */
#ifndef GS_JSONREAD_PRIVATE_H
#define GS_JSONREAD_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gs_json_reader {
    const char *at; /* text, terminated */
    bool bad;
    bool inside; /* an object or array was just opened: no comma yet */
};

/* Enters "{" or "[". */
bool gs_json_enter(struct gs_json_reader *reader, char open);
/* The next key of an object; false at its end or when bad. Longer keys are cut. */
bool gs_json_next_key(struct gs_json_reader *reader, char *ret_key, size_t size);
/* Goes to the next element of an array; false at its end or when bad. */
bool gs_json_next(struct gs_json_reader *reader);
/* What comes next: '"' a string, '0' a number, '{', '[', 't' 'f' 'n' a word, '\0' end.
 */
char gs_json_kind(const struct gs_json_reader *reader);
/* A string of at most size - 1 bytes (longer is bad). \uXXXX below 0x100 is that byte,
 * others are '?'. */
bool gs_json_get_text(struct gs_json_reader *reader, char *ret_text, size_t size);
/* A whole number from 0 to max. */
bool gs_json_get_number(struct gs_json_reader *reader,
                        uint64_t max,
                        uint64_t *ret_number);
bool gs_json_get_flag(struct gs_json_reader *reader, bool *ret_flag);
/* Any value, passed over. */
bool gs_json_skip(struct gs_json_reader *reader);
/* Nothing but blanks is left. */
bool gs_json_at_end(struct gs_json_reader *reader);

#endif
