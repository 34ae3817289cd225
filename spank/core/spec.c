/* spec.c - SPEC and plugstack.conf arguments -> struct gs_spec; see spec.h.
 *
 * One table row per key, in speckeys.c. A text with any mistake changes nothing and
 * ends in one sentence that names the key, the value and what is allowed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "error_private.h"
#include "number_private.h"
#include "preset.h"
#include "spec.h"
#include "spec_private.h"

#define VALUE_SIZE (GS_SPEC_REPORT_SIZE + 1)
#define KEY_COUNT GS_SPEC_KEY_COUNT
#define KEYS GS_SPEC_KEYS
#define SEEN_SWITCH (1U << KEY_COUNT) /* on or off, in the set of keys seen */

void gs_spec_init(struct gs_spec *spec)
{
    *spec = (struct gs_spec){
        .timeout_s = 120,
        .health = GS_HEALTH_RECORD,
        .env_presets = GS_ENV_TORCH,
        .spool = "/run/gangstart",
    };
}

/* Names of the keys allowed here, "timeout, health, ...". */
static void keys_list(bool site, char *out, size_t size)
{
    size_t used = 0;

    out[0] = '\0';
    for (uint32_t i = 0; i < KEY_COUNT && used < size; i++)
        if (site || !KEYS[i].site)
            used += (size_t)snprintf(
                out + used, size - used, "%s%s", used ? ", " : "", KEYS[i].name);
}

static const struct gs_spec_key *key_find(const char *name, size_t len)
{
    for (uint32_t i = 0; i < KEY_COUNT; i++)
        if (strlen(KEYS[i].name) == len && memcmp(KEYS[i].name, name, len) == 0)
            return &KEYS[i];
    return NULL;
}

/* Is every character one that survives plugstack.conf and an environment variable? */
static bool value_clean(const char *value)
{
    for (const char *c = value; *c; c++)
        if ((unsigned char)*c <= 0x20 || *c == 0x7f || *c == '#' || *c == ',')
            return false;
    return true;
}

static int value_set(struct gs_spec *spec,
                     const struct gs_spec_key *key,
                     const char *value,
                     struct gs_error *error)
{
    if (value_clean(value) && key->type->read(key, (char *)spec + key->offset, value))
        return 0;
    return gs_error_set(error,
                        EINVAL,
                        "%s=%.160s is not allowed; %s takes %s",
                        key->name,
                        value,
                        key->name,
                        key->allowed);
}

static int key_unknown(const char *item, bool site, struct gs_error *error)
{
    char keys[200];

    keys_list(site, keys, sizeof(keys));
    return gs_error_set(error,
                        EINVAL,
                        "'%.120s' is not understood; allowed are %s%s as key=value "
                        "(a value cannot contain commas or blanks)",
                        item,
                        site ? "" : "on, off, a number of seconds, and ",
                        keys);
}

/* Remembers the key in *seen; an error if it was there. */
static int seen_add(uint32_t *seen,
                    uint32_t bit,
                    const char *name,
                    struct gs_error *error)
{
    if (*seen & bit)
        return gs_error_set(
            error, EINVAL, "%s is given twice in one SPEC; give it once", name);
    *seen |= bit;
    return 0;
}

/* One item of the user's SPEC. */
static int item_read(struct gs_spec *spec,
                     char *item,
                     uint32_t *seen,
                     struct gs_error *error)
{
    char *equals = strchr(item, '=');
    const struct gs_spec_key *key = NULL;
    const char *value = item;
    int rc;

    if (strcmp(item, "on") == 0 || strcmp(item, "off") == 0) {
        spec->on = item[1] == 'n';
        return seen_add(seen, SEEN_SWITCH, "on or off", error);
    }
    if (equals) {
        key = key_find(item, (size_t)(equals - item));
        value = equals + 1;
    } else if (gs_digits_count(item, strlen(item))) {
        key = &KEYS[0];
    }
    if (!key)
        return key_unknown(item, false, error);
    if (key->site)
        return gs_error_set(error,
                            EINVAL,
                            "%s is a site setting; it belongs into plugstack.conf, "
                            "not into --gang-start or SLURM_GANG_START",
                            key->name);
    rc = seen_add(seen, 1U << (key - KEYS), key->name, error);
    return rc < 0 ? rc : value_set(spec, key, value, error);
}

int gs_spec_parse(struct gs_spec *spec, const char *text, struct gs_error *error)
{
    char items[GS_SPEC_TEXT_SIZE];
    struct gs_spec next = *spec;
    uint32_t seen = 0;
    char *item = items;

    next.on = true;
    if (!text || !text[0] || strcmp(text, "(null)") == 0) {
        *spec = next;
        return 0;
    }
    if (strlen(text) >= sizeof(items))
        return gs_error_set(error,
                            EINVAL,
                            "the SPEC '%.60s...' has %zu characters; at most %d are "
                            "allowed",
                            text,
                            strlen(text),
                            GS_SPEC_TEXT_SIZE - 1);
    snprintf(items, sizeof(items), "%s", text);
    while (item) {
        char *comma = strchr(item, ',');
        int rc;

        if (comma)
            *comma = '\0';
        rc = item_read(&next, item, &seen, error);
        if (rc < 0)
            return rc;
        item = comma ? comma + 1 : NULL;
    }
    *spec = next;
    return 0;
}

int gs_spec_arg(struct gs_spec *spec, const char *arg, struct gs_error *error)
{
    const char *equals = arg ? strchr(arg, '=') : NULL;
    const struct gs_spec_key *key;

    if (arg && (strcmp(arg, "on") == 0 || strcmp(arg, "off") == 0))
        return gs_error_set(error,
                            EINVAL,
                            "'%s' cannot be set in plugstack.conf; use auto=never, "
                            "auto=gpu or auto=always",
                            arg);
    key = equals ? key_find(arg, (size_t)(equals - arg)) : NULL;
    if (!key)
        return key_unknown(arg ? arg : "", true, error);
    return value_set(spec, key, equals + 1, error);
}

int gs_spec_format(const struct gs_spec *spec, char *out, size_t size)
{
    char text[GS_SPEC_TEXT_SIZE];
    size_t used = (size_t)snprintf(text, sizeof(text), "%s", spec->on ? "on" : "off");

    for (uint32_t i = 0; i < KEY_COUNT; i++) {
        const struct gs_spec_key *key = &KEYS[i];
        char value[VALUE_SIZE];

        if (key->site)
            continue;
        key->type->write(key, (const char *)spec + key->offset, value, sizeof(value));
        used += (size_t)snprintf(
            text + used, sizeof(text) - used, ",%s=%s", key->name, value);
        if (used >= sizeof(text))
            return -ENOSPC;
    }
    if (used >= size)
        return -ENOSPC;
    memcpy(out, text, used + 1);
    return 0;
}

const char *gs_spec_help(void)
{
    static char text[3072]; /* same content at every call */
    size_t used = 0;

    for (int site = 0; site <= 1; site++) {
        used +=
            (size_t)snprintf(text + used,
                             sizeof(text) - used,
                             site ? "in plugstack.conf only:\n"
                                  : "SPEC: comma-separated key=value, a bare number "
                                    "(= timeout), on, off\n");
        for (uint32_t i = 0; i < KEY_COUNT; i++) {
            char form[64];

            if (KEYS[i].site != (site == 1))
                continue;
            snprintf(form, sizeof(form), "%s=%s", KEYS[i].name, KEYS[i].takes);
            used += (size_t)snprintf(
                text + used, sizeof(text) - used, "  %-32s %s\n", form, KEYS[i].help);
        }
    }
    return text;
}
