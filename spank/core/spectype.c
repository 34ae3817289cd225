/* spectype.c - the types of SPEC values; see spec_private.h.
 *
 * Nothing here depends on the locale: a decimal point is a point on every node.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "number_private.h"
#include "preset.h"
#include "spec_private.h"

#define PORT_LO 1024
#define PORT_HI 65535
#define IFACE_NAME_MAX 15 /* Linux: IFNAMSIZ - 1 */

static bool number_between(
    const char *text, size_t len, uint32_t lo, uint32_t hi, uint32_t *ret_number)
{
    uint64_t number;

    if (!gs_number_read(text, len, hi, &number) || number < lo)
        return false;
    *ret_number = (uint32_t)number;
    return true;
}

static bool number_read(const struct gs_spec_key *key, void *field, const char *text)
{
    return number_between(text, strlen(text), key->lo, key->hi, field);
}

static void number_write(const struct gs_spec_key *key,
                         const void *field,
                         char *out,
                         size_t n)
{
    (void)key;
    snprintf(out, n, "%u", *(const uint32_t *)field);
}

static bool word_read(const struct gs_spec_key *key, void *field, const char *text)
{
    for (int i = 0; key->words[i]; i++) {
        if (strcmp(key->words[i], text) == 0) {
            memcpy(field, &i, sizeof(i));
            return true;
        }
    }
    return false;
}

static void word_write(const struct gs_spec_key *key,
                       const void *field,
                       char *out,
                       size_t n)
{
    int i;

    memcpy(&i, field, sizeof(i));
    snprintf(out, n, "%s", key->words[i]);
}

static bool port_read(const struct gs_spec_key *key, void *field, const char *text)
{
    (void)key;
    if (strcmp(text, "auto") == 0) {
        *(uint32_t *)field = 0;
        return true;
    }
    return number_between(text, strlen(text), PORT_LO, PORT_HI, field);
}

static void port_write(const struct gs_spec_key *key,
                       const void *field,
                       char *out,
                       size_t n)
{
    if (*(const uint32_t *)field)
        number_write(key, field, out, n);
    else
        snprintf(out, n, "auto");
}

static bool ports_read(const struct gs_spec_key *key, void *field, const char *text)
{
    const char *dash = strchr(text, '-');
    uint32_t ends[2] = {0, 0};

    (void)key;
    if (strcmp(text, "any") != 0) {
        if (!dash
            || !number_between(text, (size_t)(dash - text), PORT_LO, PORT_HI, &ends[0])
            || !number_between(dash + 1, strlen(dash + 1), ends[0], PORT_HI, &ends[1]))
            return false;
    }
    memcpy(field, ends, sizeof(ends));
    return true;
}

static void ports_write(const struct gs_spec_key *key,
                        const void *field,
                        char *out,
                        size_t n)
{
    uint32_t ends[2];

    (void)key;
    memcpy(ends, field, sizeof(ends));
    if (ends[0])
        snprintf(out, n, "%u-%u", ends[0], ends[1]);
    else
        snprintf(out, n, "any");
}

/* "5", "0.25": up to three decimals, so that the text round-trips exactly. */
static bool seconds_read(const struct gs_spec_key *key, void *field, const char *text)
{
    const char *point = strchr(text, '.');
    size_t whole_len = point ? (size_t)(point - text) : strlen(text);
    size_t part_len = point ? strlen(point + 1) : 0;
    uint64_t whole, part = 0;
    double seconds;

    if (!gs_number_read(text, whole_len, key->hi, &whole) || part_len > 3)
        return false;
    if (point && !gs_number_read(point + 1, part_len, 999, &part))
        return false;
    for (size_t i = part_len; point && i < 3; i++)
        part *= 10;
    if (whole == key->hi && part > 0)
        return false;
    seconds = (double)(whole * 1000 + part) / 1000.0;
    memcpy(field, &seconds, sizeof(seconds));
    return true;
}

static void seconds_write(const struct gs_spec_key *key,
                          const void *field,
                          char *out,
                          size_t n)
{
    double seconds;
    unsigned long long ms;

    (void)key;
    memcpy(&seconds, field, sizeof(seconds));
    ms = (unsigned long long)(seconds * 1000.0 + 0.5);
    if (ms % 1000)
        snprintf(out, n, "%llu.%03llu", ms / 1000, ms % 1000);
    else
        snprintf(out, n, "%llu", ms / 1000);
}

static bool path_read(const struct gs_spec_key *key, void *field, const char *text)
{
    bool none = strcmp(text, "none") == 0 && !key->lo;

    if (!none && (text[0] != '/' || strlen(text) >= key->size))
        return false;
    snprintf(field, key->size, "%s", none ? "" : text);
    return true;
}

static void path_write(const struct gs_spec_key *key,
                       const void *field,
                       char *out,
                       size_t n)
{
    const char *path = field;

    (void)key;
    snprintf(out, n, "%s", path[0] ? path : "none");
}

/* The user's report: auto is "", so that a default can be told from none. */
static bool report_read(const struct gs_spec_key *key, void *field, const char *text)
{
    bool word = strcmp(text, "none") == 0 || strcmp(text, "auto") == 0;

    if (!word && (text[0] != '/' || strlen(text) >= key->size))
        return false;
    snprintf(field, key->size, "%s", strcmp(text, "auto") == 0 ? "" : text);
    return true;
}

static void report_write(const struct gs_spec_key *key,
                         const void *field,
                         char *out,
                         size_t n)
{
    const char *path = field;

    (void)key;
    snprintf(out, n, "%s", path[0] ? path : "auto");
}

static bool cidr_valid(const char *text)
{
    const char *slash = strchr(text, '/');
    char address[INET6_ADDRSTRLEN];
    unsigned char bytes[sizeof(struct in6_addr)];
    size_t len = (size_t)(slash - text);
    bool six;
    uint32_t bits;

    if (len >= sizeof(address))
        return false;
    memcpy(address, text, len);
    address[len] = '\0';
    six = strchr(address, ':') != NULL;
    return inet_pton(six ? AF_INET6 : AF_INET, address, bytes) == 1
           && number_between(slash + 1, strlen(slash + 1), 0, six ? 128 : 32, &bits);
}

static bool iface_read(const struct gs_spec_key *key, void *field, const char *text)
{
    bool automatic = strcmp(text, "auto") == 0;

    if (strlen(text) >= key->size)
        return false;
    if (strchr(text, '/') ? !cidr_valid(text) : strlen(text) > IFACE_NAME_MAX)
        return false;
    if (strcmp(text, ".") == 0 || strcmp(text, "..") == 0)
        return false;
    snprintf(field, key->size, "%s", automatic ? "" : text);
    return true;
}

static void iface_write(const struct gs_spec_key *key,
                        const void *field,
                        char *out,
                        size_t n)
{
    const char *iface = field;

    (void)key;
    snprintf(out, n, "%s", iface[0] ? iface : "auto");
}

/* Names of letters, digits and _.-, joined by +. */
static bool names_read(const struct gs_spec_key *key, void *field, const char *text)
{
    size_t len = 0;

    for (const char *c = text;; c++) {
        bool ends = *c == '+' || !*c;

        if (ends ? len == 0 : !isalnum((unsigned char)*c) && !strchr("_.-", *c))
            return false;
        len = ends ? 0 : len + 1;
        if (!*c)
            break;
    }
    if (strlen(text) >= key->size)
        return false;
    snprintf(field, key->size, "%s", strcmp(text, "any") == 0 ? "" : text);
    return true;
}

static void names_write(const struct gs_spec_key *key,
                        const void *field,
                        char *out,
                        size_t n)
{
    const char *names = field;

    (void)key;
    snprintf(out, n, "%s", names[0] ? names : "any");
}

static bool same(const char *name, const char *text, size_t len)
{
    return strlen(name) == len && memcmp(name, text, len) == 0;
}

static uint32_t preset_find(const char *text, size_t len)
{
    const char *name = "";
    uint32_t bit = 0;

    for (uint32_t i = 0; gs_env_preset_next(i, &name, &bit); i++)
        if (same(name, text, len))
            return bit;
    return 0;
}

/* Bit of a variable of one of the presets, or 0. */
static uint64_t variable_find(const char *text, size_t len, uint64_t presets)
{
    for (uint32_t i = 0; i < GS_VAR_COUNT; i++)
        if (same(gs_env_var_name(i), text, len) && (gs_env_var_presets(i) & presets))
            return UINT64_C(1) << i;
    return 0;
}

/* "torch", "torch+other", "torch-LOCAL_RANK-RANK", "none". */
static bool env_read(const struct gs_spec_key *key, void *field, const char *text)
{
    uint64_t sets[2] = {GS_ENV_NONE, 0};

    (void)key;
    if (strcmp(text, "none") != 0) {
        char sign = '+';

        for (const char *c = text;; c++) {
            size_t len = strcspn(c, "+-");
            uint64_t *set = &sets[sign == '-'];
            uint64_t bit =
                sign == '-' ? variable_find(c, len, sets[0]) : preset_find(c, len);

            if (!bit || (*set & bit))
                return false;
            *set |= bit;
            c += len;
            if (!*c)
                break;
            sign = *c;
        }
    }
    memcpy(field, sets, sizeof(sets));
    return true;
}

static void env_write(const struct gs_spec_key *key,
                      const void *field,
                      char *out,
                      size_t n)
{
    const char *name = "";
    uint64_t sets[2];
    uint32_t bit = 0;
    size_t used = 0;

    (void)key;
    memcpy(sets, field, sizeof(sets));
    snprintf(out, n, "none");
    for (uint32_t i = 0; gs_env_preset_next(i, &name, &bit); i++)
        if ((sets[0] & bit) && used < n)
            used +=
                (size_t)snprintf(out + used, n - used, "%s%s", used ? "+" : "", name);
    for (uint32_t i = 0; i < GS_VAR_COUNT; i++)
        if ((sets[1] & (UINT64_C(1) << i)) && used < n)
            used += (size_t)snprintf(out + used, n - used, "-%s", gs_env_var_name(i));
}

const struct gs_spec_type GS_SPEC_NUMBER = {number_read, number_write};
const struct gs_spec_type GS_SPEC_WORD = {word_read, word_write};
const struct gs_spec_type GS_SPEC_PORT = {port_read, port_write};
const struct gs_spec_type GS_SPEC_PORTS = {ports_read, ports_write};
const struct gs_spec_type GS_SPEC_SECONDS = {seconds_read, seconds_write};
const struct gs_spec_type GS_SPEC_PATH = {path_read, path_write};
const struct gs_spec_type GS_SPEC_REPORT = {report_read, report_write};
const struct gs_spec_type GS_SPEC_IFACE = {iface_read, iface_write};
const struct gs_spec_type GS_SPEC_NAMES = {names_read, names_write};
const struct gs_spec_type GS_SPEC_ENV = {env_read, env_write};
