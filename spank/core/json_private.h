/* json_private.h - JSON written into a gs_strbuf. */
#ifndef GS_JSON_PRIVATE_H
#define GS_JSON_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "strbuf_private.h"

/* Length of the valid UTF-8 sequence at s, 0 if there is none or it is a control
 * character (Unicode, table 3-7). */
size_t gs_utf8_length(const unsigned char *s);

/* Appends a string, quotes included. Bytes that are not valid UTF-8 and control
 * characters become \u00XX, so that the result is always valid JSON. */
void gs_json_string(struct gs_strbuf *buf, const char *value);

/* Appends `"name":`, with a comma before it unless it is the first of its object. */
void gs_json_key(struct gs_strbuf *buf, const char *name);

/* Appends a comma unless an object or array has just been opened. */
void gs_json_comma(struct gs_strbuf *buf);

/* A key with a string, a number, a flag, or seconds (null when us is negative). */
void gs_json_text(struct gs_strbuf *buf, const char *name, const char *value);
void gs_json_number(struct gs_strbuf *buf, const char *name, uint64_t value);
void gs_json_flag(struct gs_strbuf *buf, const char *name, bool value);
void gs_json_seconds(struct gs_strbuf *buf, const char *name, int64_t us);

#endif
