/* wire.c - encodes and decodes frames; see wire.h. A body that does not fit its
 * message to the byte is refused as a whole. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "error_private.h"
#include "wire_private.h"

static const uint8_t magic[4] = {'G', 'S', 'W', '1'};

void gs_wire_free(struct gs_buffer *buffer)
{
    free(buffer->data);
    memset(buffer, 0, sizeof(*buffer));
}

void gs_put_bytes(struct gs_buffer *buffer, const void *bytes, size_t size)
{
    if (buffer->failed || buffer->size + size > GS_BODY_MAX) {
        buffer->failed = true;
        return;
    }
    if (buffer->size + size > buffer->room) {
        size_t room = (buffer->size + size) * 2;
        uint8_t *data = realloc(buffer->data, room);
        if (!data) {
            buffer->failed = true;
            return;
        }
        buffer->data = data;
        buffer->room = room;
    }
    if (size)
        memcpy(buffer->data + buffer->size, bytes, size);
    buffer->size += size;
}

void gs_put_number(struct gs_buffer *buffer, uint64_t value, size_t width)
{
    uint8_t bytes[8];

    for (size_t i = 0; i < width; i++)
        bytes[i] = (uint8_t)(value >> (8 * (width - 1 - i)));
    gs_put_bytes(buffer, bytes, width);
}

void gs_put_text(struct gs_buffer *buffer, const char *text, size_t field)
{
    size_t size = strnlen(text, field - 1);

    gs_put_number(buffer, size, 2);
    gs_put_bytes(buffer, text, size);
}

const uint8_t *gs_get_bytes(struct gs_reader *reader, size_t size)
{
    const uint8_t *at = reader->at;

    if (reader->failed || size > reader->left) {
        reader->failed = true;
        return NULL;
    }
    reader->at += size;
    reader->left -= size;
    return at;
}

uint64_t gs_get_number(struct gs_reader *reader, size_t width)
{
    const uint8_t *bytes = gs_get_bytes(reader, width);
    uint64_t value = 0;

    for (size_t i = 0; bytes && i < width; i++)
        value = value << 8 | bytes[i];
    return value;
}

void gs_get_text(struct gs_reader *reader, char *ret_text, size_t field)
{
    size_t size = gs_get_number(reader, 2);
    const uint8_t *bytes = size < field ? gs_get_bytes(reader, size) : NULL;

    ret_text[0] = '\0';
    if (!bytes) {
        reader->failed = true;
        return;
    }
    for (size_t i = 0; i < size; i++)
        if (bytes[i] < 0x20 || bytes[i] == 0x7f)
            reader->failed = true;
    memcpy(ret_text, bytes, size);
    ret_text[size] = '\0';
}

bool gs_get_flag(struct gs_reader *reader)
{
    uint64_t value = gs_get_number(reader, 1);

    if (value > 1)
        reader->failed = true;
    return value == 1;
}

int gs_reader_end(const struct gs_reader *reader, struct gs_error *error)
{
    if (reader->failed || reader->left)
        return gs_error_set(error, EBADMSG, "a frame's body does not fit its type");
    return 0;
}

void gs_header_encode(uint8_t *ret_bytes, const struct gs_header *header)
{
    struct gs_buffer buffer = {.data = ret_bytes, .room = GS_HEADER_SIZE};

    gs_put_bytes(&buffer, magic, sizeof(magic));
    gs_put_number(&buffer, header->type, 1);
    gs_put_number(&buffer, GS_WIRE_VERSION, 1);
    gs_put_number(&buffer, 0, 2);
    gs_put_number(&buffer, header->size, 4);
    gs_put_number(&buffer, header->sequence, 4);
}

int gs_header_decode(const uint8_t *bytes, struct gs_header *ret_header)
{
    struct gs_reader reader = {.at = bytes + 4, .left = GS_HEADER_SIZE - 4};
    struct gs_header header;

    header.type = (uint8_t)gs_get_number(&reader, 1);
    uint64_t version = gs_get_number(&reader, 1);
    uint64_t reserved = gs_get_number(&reader, 2);
    header.size = (uint32_t)gs_get_number(&reader, 4);
    header.sequence = (uint32_t)gs_get_number(&reader, 4);
    if (memcmp(bytes, magic, sizeof(magic)) != 0 || version != GS_WIRE_VERSION
        || reserved || header.type < GS_FRAME_CHALLENGE || header.type > GS_FRAME_HEALTH
        || header.size > GS_BODY_MAX)
        return -EBADMSG;
    *ret_header = header;
    return 0;
}
