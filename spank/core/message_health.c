/* message_health.c - the frame about a node's GPUs; see wire.h. */
#include <string.h>

#include "wire_private.h"

#define COUNTS 4

void gs_healthmsg_encode(struct gs_buffer *buffer, const struct gs_healthmsg *health)
{
    gs_put_number(buffer, health->node_index, 4);
    gs_put_number(buffer, health->verdict, 1);
    gs_put_number(buffer, health->none, 1);
    gs_put_number(buffer, health->shared_gpu, 1);
    for (unsigned i = 0; i < COUNTS; i++)
        gs_put_number(buffer, health->counts[i], 4);
    gs_put_number(buffer, health->took_us, 4);
    gs_put_number(buffer, health->alike, 8);
    gs_put_text(buffer, health->why, sizeof(health->why));
    gs_put_text(buffer, health->binding, sizeof(health->binding));
    gs_put_number(buffer, health->record_size, 4);
    gs_put_bytes(buffer, health->record, health->record_size);
}

/* The record goes into the report as it is: one object, and nothing that would break
 * out of a line. Whether it is JSON all through is its reader's business. */
static bool is_object(const uint8_t *record, uint32_t size)
{
    if (size < 2 || record[0] != '{' || record[size - 1] != '}')
        return false;
    for (uint32_t i = 0; i < size; i++)
        if (record[i] < 0x20 || record[i] == 0x7f)
            return false;
    return true;
}

int gs_healthmsg_decode(const uint8_t *body,
                        size_t size,
                        struct gs_healthmsg *ret_health,
                        struct gs_error *error)
{
    struct gs_reader reader = {.at = body, .left = size};
    struct gs_healthmsg health = {0};

    health.node_index = (uint32_t)gs_get_number(&reader, 4);
    health.verdict = (uint8_t)gs_get_number(&reader, 1);
    health.none = gs_get_flag(&reader);
    health.shared_gpu = gs_get_flag(&reader);
    for (unsigned i = 0; i < COUNTS; i++)
        health.counts[i] = (uint32_t)gs_get_number(&reader, 4);
    health.took_us = (uint32_t)gs_get_number(&reader, 4);
    health.alike = gs_get_number(&reader, 8);
    gs_get_text(&reader, health.why, sizeof(health.why));
    gs_get_text(&reader, health.binding, sizeof(health.binding));
    health.record_size = (uint32_t)gs_get_number(&reader, 4);
    health.record = gs_get_bytes(&reader, health.record_size);
    if (health.verdict >= COUNTS || !health.record
        || !is_object(health.record, health.record_size))
        reader.failed = true;
    int rc = gs_reader_end(&reader, error);
    if (rc == 0)
        *ret_health = health;
    return rc;
}
