/* rdzv.c - the one variable that carries port, key and SPEC from srun to the nodes:
 * "2:PORT:FIRST:FIRST:RESTARTS:HEXKEY:SPEC". Read in slurmstepd as hostile input. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

int gs_rdzv_encode(const struct gs_rdzv *rdzv, char *out, size_t size)
{
    char hex[2 * GS_KEY_SIZE + 1], spec[GS_SPEC_TEXT_SIZE];
    int n, rc = gs_spec_format(&rdzv->spec, spec, sizeof(spec));

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < GS_KEY_SIZE; i++)
        snprintf(hex + 2 * i, 3, "%02x", rdzv->key[i]);
    n = snprintf(out,
                 size,
                 "2:%u:%u:%u:%u:%s:%s",
                 rdzv->port,
                 rdzv->first_ports[0],
                 rdzv->first_ports[1],
                 rdzv->restart_count,
                 hex,
                 spec);
    explicit_bzero(hex, sizeof(hex));
    return n > 0 && (size_t)n < size ? 0 : -ENOSPC;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_key(const char *hex, uint8_t *ret_key)
{
    for (size_t i = 0; i < GS_KEY_SIZE; i++) {
        int high = hex_digit(hex[2 * i]);
        int low = high < 0 ? -1 : hex_digit(hex[2 * i + 1]);
        if (low < 0)
            return false;
        ret_key[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

int gs_rdzv_decode(const char *text, struct gs_rdzv *ret_rdzv, struct gs_error *error)
{
    struct gs_rdzv rdzv = {.spec = gs_spec};
    unsigned port, first, second, restarts;
    int used = 0, rc;

    if (sscanf(text, "2:%5u:%5u:%5u:%10u:%n", &port, &first, &second, &restarts, &used)
            != 4
        || !used || port > 65535 || first > 65535 || second > 65535
        || strlen(text + used) <= 2 * GS_KEY_SIZE || !read_key(text + used, rdzv.key)
        || text[used + 2 * GS_KEY_SIZE] != ':') {
        snprintf(error->text,
                 sizeof(error->text),
                 "srun's plugin speaks another language: install one version of "
                 "gangstart everywhere");
        return -EPROTO;
    }
    rdzv.port = (uint16_t)port;
    rdzv.first_ports[0] = (uint16_t)first;
    rdzv.first_ports[1] = (uint16_t)second;
    rdzv.restart_count = restarts;
    rc = gs_spec_parse(&rdzv.spec, text + used + 2 * GS_KEY_SIZE + 1, error);
    if (rc == 0)
        *ret_rdzv = rdzv;
    explicit_bzero(&rdzv, sizeof(rdzv));
    return rc;
}
