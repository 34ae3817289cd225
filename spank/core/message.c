/* message.c - the bodies of the frames, one encode and one decode per message; see
 * wire.h. Fields are written and read in the order of their struct. */
#include <errno.h>
#include <string.h>

#include "error_private.h"
#include "wire_private.h"

#define ARRIVAL_SIZE 24

void gs_hello_encode(struct gs_buffer *buffer,
                     const struct gs_hello *hello,
                     const uint32_t *ranks)
{
    gs_put_bytes(buffer, hello->nonce, GS_NONCE_SIZE);
    gs_put_number(buffer, hello->job_id, 4);
    gs_put_number(buffer, hello->step_id, 4);
    gs_put_number(buffer, hello->restart_count, 4);
    gs_put_number(buffer, hello->node_index, 4);
    gs_put_number(buffer, hello->node_count, 4);
    gs_put_number(buffer, hello->task_count, 4);
    gs_put_number(buffer, (uint64_t)hello->wall_us, 8);
    gs_put_text(buffer, hello->node_name, sizeof(hello->node_name));
    gs_put_text(buffer, hello->version, sizeof(hello->version));
    gs_put_text(buffer, hello->step_nodes, sizeof(hello->step_nodes));
    gs_put_number(buffer, hello->rank_count, 4);
    for (uint32_t i = 0; i < hello->rank_count; i++)
        gs_put_number(buffer, ranks[i], 4);
}

int gs_hello_decode(const uint8_t *body,
                    size_t size,
                    struct gs_hello *ret_hello,
                    struct gs_error *error)
{
    struct gs_reader reader = {.at = body, .left = size};
    struct gs_hello hello = {0};
    const uint8_t *nonce = gs_get_bytes(&reader, GS_NONCE_SIZE);

    if (nonce)
        memcpy(hello.nonce, nonce, GS_NONCE_SIZE);
    hello.job_id = (uint32_t)gs_get_number(&reader, 4);
    hello.step_id = (uint32_t)gs_get_number(&reader, 4);
    hello.restart_count = (uint32_t)gs_get_number(&reader, 4);
    hello.node_index = (uint32_t)gs_get_number(&reader, 4);
    hello.node_count = (uint32_t)gs_get_number(&reader, 4);
    hello.task_count = (uint32_t)gs_get_number(&reader, 4);
    hello.wall_us = (int64_t)gs_get_number(&reader, 8);
    gs_get_text(&reader, hello.node_name, sizeof(hello.node_name));
    gs_get_text(&reader, hello.version, sizeof(hello.version));
    gs_get_text(&reader, hello.step_nodes, sizeof(hello.step_nodes));
    hello.rank_count = (uint32_t)gs_get_number(&reader, 4);
    hello.ranks = gs_get_bytes(&reader, (size_t)hello.rank_count * 4);
    int rc = gs_reader_end(&reader, error);
    if (rc == 0)
        *ret_hello = hello;
    return rc;
}

uint32_t gs_hello_rank(const struct gs_hello *hello, uint32_t i)
{
    struct gs_reader reader = {.at = hello->ranks + (size_t)i * 4, .left = 4};

    return (uint32_t)gs_get_number(&reader, 4);
}

void gs_fail_encode(struct gs_buffer *buffer, const struct gs_fail *fail)
{
    gs_put_number(buffer, fail->node_index, 4);
    gs_put_number(buffer, fail->rank, 4);
    gs_put_number(buffer, fail->kind, 1);
    gs_put_number(buffer, fail->status, 4);
    gs_put_number(buffer, fail->siblings, 4);
    gs_put_text(buffer, fail->text, sizeof(fail->text));
}

int gs_fail_decode(const uint8_t *body,
                   size_t size,
                   struct gs_fail *ret_fail,
                   struct gs_error *error)
{
    struct gs_reader reader = {.at = body, .left = size};
    struct gs_fail fail = {0};

    fail.node_index = (uint32_t)gs_get_number(&reader, 4);
    fail.rank = (uint32_t)gs_get_number(&reader, 4);
    fail.kind = (uint8_t)gs_get_number(&reader, 1);
    fail.status = (uint32_t)gs_get_number(&reader, 4);
    fail.siblings = (uint32_t)gs_get_number(&reader, 4);
    gs_get_text(&reader, fail.text, sizeof(fail.text));
    if (fail.kind < GS_FAIL_EXIT || fail.kind > GS_FAIL_LOST)
        reader.failed = true;
    int rc = gs_reader_end(&reader, error);
    if (rc == 0)
        *ret_fail = fail;
    return rc;
}

void gs_master_encode(struct gs_buffer *buffer, const struct gs_master *master)
{
    gs_put_number(buffer, master->node_index, 4);
    gs_put_number(buffer, master->port, 2);
    gs_put_text(buffer, master->export_as, sizeof(master->export_as));
    gs_put_number(buffer, master->user_address, 1);
    gs_put_number(buffer, master->user_port, 1);
    gs_put_number(buffer, master->must_match, 1);
    gs_put_number(buffer, master->candidate_count, 1);
    for (uint32_t i = 0; i < master->candidate_count; i++) {
        const struct gs_candidate *one = &master->candidates[i];
        gs_put_text(buffer, one->address, sizeof(one->address));
        gs_put_text(buffer, one->interface, sizeof(one->interface));
        gs_put_text(buffer, one->why, sizeof(one->why));
    }
}

int gs_master_decode(const uint8_t *body,
                     size_t size,
                     struct gs_master *ret_master,
                     struct gs_error *error)
{
    struct gs_reader reader = {.at = body, .left = size};
    struct gs_master master = {0};

    master.node_index = (uint32_t)gs_get_number(&reader, 4);
    master.port = (uint16_t)gs_get_number(&reader, 2);
    gs_get_text(&reader, master.export_as, sizeof(master.export_as));
    master.user_address = gs_get_flag(&reader);
    master.user_port = gs_get_flag(&reader);
    master.must_match = gs_get_flag(&reader);
    master.candidate_count = (uint32_t)gs_get_number(&reader, 1);
    if (master.candidate_count > GS_CANDIDATE_MAX)
        reader.failed = true;
    for (uint32_t i = 0; !reader.failed && i < master.candidate_count; i++) {
        struct gs_candidate *one = &master.candidates[i];
        gs_get_text(&reader, one->address, sizeof(one->address));
        gs_get_text(&reader, one->interface, sizeof(one->interface));
        gs_get_text(&reader, one->why, sizeof(one->why));
    }
    int rc = gs_reader_end(&reader, error);
    if (rc == 0)
        *ret_master = master;
    return rc;
}

void gs_probe_encode(struct gs_buffer *buffer, const struct gs_probe *probe)
{
    gs_put_number(buffer, probe->round, 4);
    gs_put_number(buffer, probe->port, 2);
    gs_put_number(buffer, probe->must_match, 1);
    gs_put_text(buffer, probe->address, sizeof(probe->address));
    gs_put_text(buffer, probe->name, sizeof(probe->name));
}

int gs_probe_decode(const uint8_t *body,
                    size_t size,
                    struct gs_probe *ret_probe,
                    struct gs_error *error)
{
    struct gs_reader reader = {.at = body, .left = size};
    struct gs_probe probe = {0};

    probe.round = (uint32_t)gs_get_number(&reader, 4);
    probe.port = (uint16_t)gs_get_number(&reader, 2);
    probe.must_match = gs_get_flag(&reader);
    gs_get_text(&reader, probe.address, sizeof(probe.address));
    gs_get_text(&reader, probe.name, sizeof(probe.name));
    int rc = gs_reader_end(&reader, error);
    if (rc == 0)
        *ret_probe = probe;
    return rc;
}

void gs_reach_encode(struct gs_buffer *buffer, const struct gs_reach *reach)
{
    gs_put_number(buffer, reach->node_index, 4);
    gs_put_number(buffer, reach->round, 4);
    gs_put_number(buffer, reach->result, 1);
    gs_put_number(buffer, reach->detail, 4);
    gs_put_number(buffer, reach->rtt_us, 4);
    gs_put_text(buffer, reach->text, sizeof(reach->text));
}

int gs_reach_decode(const uint8_t *body,
                    size_t size,
                    struct gs_reach *ret_reach,
                    struct gs_error *error)
{
    struct gs_reader reader = {.at = body, .left = size};
    struct gs_reach reach = {0};

    reach.node_index = (uint32_t)gs_get_number(&reader, 4);
    reach.round = (uint32_t)gs_get_number(&reader, 4);
    reach.result = (uint8_t)gs_get_number(&reader, 1);
    reach.detail = (uint32_t)gs_get_number(&reader, 4);
    reach.rtt_us = (uint32_t)gs_get_number(&reader, 4);
    gs_get_text(&reader, reach.text, sizeof(reach.text));
    if (reach.result > GS_REACH_ELSEWHERE)
        reader.failed = true;
    int rc = gs_reader_end(&reader, error);
    if (rc == 0)
        *ret_reach = reach;
    return rc;
}

void gs_go_encode(struct gs_buffer *buffer, const struct gs_go *go)
{
    gs_put_text(buffer, go->master_addr, sizeof(go->master_addr));
    gs_put_number(buffer, go->master_port, 2);
    gs_put_number(buffer, (uint64_t)go->t0_us, 8);
}

int gs_go_decode(const uint8_t *body,
                 size_t size,
                 struct gs_go *ret_go,
                 struct gs_error *error)
{
    struct gs_reader reader = {.at = body, .left = size};
    struct gs_go go = {0};

    gs_get_text(&reader, go.master_addr, sizeof(go.master_addr));
    go.master_port = (uint16_t)gs_get_number(&reader, 2);
    go.t0_us = (int64_t)gs_get_number(&reader, 8);
    int rc = gs_reader_end(&reader, error);
    if (rc == 0)
        *ret_go = go;
    return rc;
}

void gs_abort_encode(struct gs_buffer *buffer, const struct gs_abort *abort)
{
    gs_put_number(buffer, abort->code, 1);
    gs_put_text(buffer, abort->text, sizeof(abort->text));
}

int gs_abort_decode(const uint8_t *body,
                    size_t size,
                    struct gs_abort *ret_abort,
                    struct gs_error *error)
{
    struct gs_reader reader = {.at = body, .left = size};
    struct gs_abort abort = {0};

    abort.code = (uint8_t)gs_get_number(&reader, 1);
    gs_get_text(&reader, abort.text, sizeof(abort.text));
    int rc = gs_reader_end(&reader, error);
    if (rc == 0)
        *ret_abort = abort;
    return rc;
}

void gs_state_encode(struct gs_buffer *buffer, const struct gs_state *state)
{
    gs_put_number(buffer, state->node_index, 4);
    gs_put_number(buffer, state->rank, 4);
    gs_put_number(buffer, state->pid, 4);
    gs_put_number(buffer, state->letter, 1);
    gs_put_text(buffer, state->wchan, sizeof(state->wchan));
    gs_put_text(buffer, state->command, sizeof(state->command));
    gs_put_text(buffer, state->child, sizeof(state->child));
    gs_put_text(buffer, state->ahead, sizeof(state->ahead));
}

int gs_state_decode(const uint8_t *body,
                    size_t size,
                    struct gs_state *ret_state,
                    struct gs_error *error)
{
    struct gs_reader reader = {.at = body, .left = size};
    struct gs_state state = {0};

    state.node_index = (uint32_t)gs_get_number(&reader, 4);
    state.rank = (uint32_t)gs_get_number(&reader, 4);
    state.pid = (uint32_t)gs_get_number(&reader, 4);
    state.letter = (uint8_t)gs_get_number(&reader, 1);
    gs_get_text(&reader, state.wchan, sizeof(state.wchan));
    gs_get_text(&reader, state.command, sizeof(state.command));
    gs_get_text(&reader, state.child, sizeof(state.child));
    gs_get_text(&reader, state.ahead, sizeof(state.ahead));
    if (state.letter < 'A' || state.letter > 'z')
        reader.failed = true;
    int rc = gs_reader_end(&reader, error);
    if (rc == 0)
        *ret_state = state;
    return rc;
}

void gs_arrivals_encode(struct gs_buffer *buffer,
                        uint32_t node_index,
                        const struct gs_arrival *arrivals,
                        uint32_t count)
{
    gs_put_number(buffer, node_index, 4);
    for (uint32_t i = 0; i < count; i++) {
        gs_put_number(buffer, arrivals[i].rank, 4);
        gs_put_number(buffer, arrivals[i].age_us, 4);
        gs_put_number(buffer, arrivals[i].visible, 4);
        gs_put_number(buffer, arrivals[i].claim, 4);
        gs_put_number(buffer, arrivals[i].program, 4);
        gs_put_number(buffer, arrivals[i].apart, 4);
    }
}

void gs_index_encode(struct gs_buffer *buffer, uint32_t node_index)
{
    gs_put_number(buffer, node_index, 4);
}

int gs_index_decode(const uint8_t *body, size_t size, uint32_t *ret_node_index)
{
    struct gs_reader reader = {.at = body, .left = size};
    uint32_t node_index = (uint32_t)gs_get_number(&reader, 4);

    if (reader.failed)
        return -EBADMSG;
    *ret_node_index = node_index;
    return 0;
}

int gs_arrivals_count(const uint8_t *body, size_t size, uint32_t *ret_node_index)
{
    struct gs_reader reader = {.at = body, .left = size};
    uint32_t node_index = (uint32_t)gs_get_number(&reader, 4);

    if (reader.failed || reader.left % ARRIVAL_SIZE)
        return -EBADMSG;
    *ret_node_index = node_index;
    return (int)(reader.left / ARRIVAL_SIZE);
}

void gs_arrivals_get(const uint8_t *body, uint32_t i, struct gs_arrival *ret_arrival)
{
    struct gs_reader reader = {.at = body + 4 + (size_t)i * ARRIVAL_SIZE,
                               .left = ARRIVAL_SIZE};

    ret_arrival->rank = (uint32_t)gs_get_number(&reader, 4);
    ret_arrival->age_us = (uint32_t)gs_get_number(&reader, 4);
    ret_arrival->visible = (uint32_t)gs_get_number(&reader, 4);
    ret_arrival->claim = (uint32_t)gs_get_number(&reader, 4);
    ret_arrival->program = (uint32_t)gs_get_number(&reader, 4);
    ret_arrival->apart = (uint32_t)gs_get_number(&reader, 4);
}
