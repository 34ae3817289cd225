/* wire_private.h - the byte writer and reader under the message codecs. */
#ifndef GS_WIRE_PRIVATE_H
#define GS_WIRE_PRIVATE_H

#include "wire.h"

/* Walks over received bytes; the first misfit sets failed and everything read
 * after it is zero or empty. */
struct gs_reader {
    const uint8_t *at;
    size_t left;
    bool failed;
};

void gs_put_bytes(struct gs_buffer *buffer, const void *bytes, size_t size);
void gs_put_number(struct gs_buffer *buffer, uint64_t value, size_t width);
void gs_put_text(struct gs_buffer *buffer, const char *text, size_t field);

const uint8_t *gs_get_bytes(struct gs_reader *reader, size_t size);
uint64_t gs_get_number(struct gs_reader *reader, size_t width);
void gs_get_text(struct gs_reader *reader, char *ret_text, size_t field);
bool gs_get_flag(struct gs_reader *reader);
/* 0 when everything was read and fitted, else -EBADMSG with a sentence. */
int gs_reader_end(const struct gs_reader *reader, struct gs_error *error);

#endif
