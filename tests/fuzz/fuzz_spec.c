/* fuzz_spec.c - SPEC as users and sites write it. First byte: who reads the rest.
 *
 * What was taken has a canonical text that says the same; what was refused changed
 * nothing and has a sentence that can be shown on a terminal. */
#include "fuzz.h"
#include "spec.h"

static void canonical(const struct gs_spec *spec)
{
    char once[GS_SPEC_TEXT_SIZE], twice[GS_SPEC_TEXT_SIZE];
    struct gs_spec read;
    struct gs_error error = {""};

    MUST(gs_spec_format(spec, once, sizeof(once)) == 0);
    MUST(!strpbrk(once, " \t\n#"));
    gs_spec_init(&read);
    MUST(gs_spec_parse(&read, once, &error) == 0);
    MUST(read.on == spec->on);
    MUST(gs_spec_format(&read, twice, sizeof(twice)) == 0);
    MUST(strcmp(once, twice) == 0);
}

static void shown(const struct gs_error *error)
{
    MUST(error->text[0]);
    for (const char *c = error->text; *c; c++)
        MUST((unsigned char)*c >= 0x20 && *c != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gs_spec spec, before;
    struct gs_error error = {""};
    char *text;
    int rc;

    if (size == 0)
        return 0;
    text = fuzz_text(data + 1, size - 1);
    memset(&spec, 0, sizeof(spec));
    gs_spec_init(&spec);
    before = spec;
    rc = data[0] % 2 ? gs_spec_arg(&spec, text, &error)
                     : gs_spec_parse(&spec, text, &error);
    if (rc == 0) {
        canonical(&spec);
    } else {
        shown(&error);
        MUST(memcmp(&spec, &before, sizeof(spec)) == 0);
    }
    free(text);
    return 0;
}
