/* fuzz_hostlist.c - node lists: Slurm's own, and what a hostile environment holds.
 *
 * Names that were taken are bounded, and folding them loses and adds none. */
#include "fuzz.h"
#include "hostlist.h"

static void fold_again(const struct gs_names *names)
{
    char *folded = gs_hostlist_fold((const char *const *)names->name, names->count);
    char *again;
    struct gs_names unfolded = {0};
    struct gs_error error = {""};

    MUST(folded);
    MUST(gs_hostlist_expand(folded, &unfolded, &error) == 0);
    MUST(unfolded.count > 0 && unfolded.count <= names->count);
    again = gs_hostlist_fold((const char *const *)unfolded.name, unfolded.count);
    MUST(again && strcmp(folded, again) == 0);
    gs_text_free(folded);
    gs_text_free(again);
    gs_names_free(&unfolded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    struct gs_names names = {0};
    struct gs_error error = {""};
    int rc = gs_hostlist_expand(text, &names, &error);

    if (rc == 0) {
        MUST(names.count > 0 && names.count <= GS_HOSTS_MAX);
        for (uint32_t i = 0; i < names.count; i++)
            MUST(names.name[i][0] && strlen(names.name[i]) <= GS_HOSTNAME_MAX);
        if (names.count <= 4096)
            fold_again(&names);
    } else {
        MUST(error.text[0] && !names.name && !names.count);
    }
    gs_names_free(&names);
    free(text);
    return 0;
}
