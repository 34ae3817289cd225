/* fuzz_rdzv.c - the variable that tells slurmstepd, which is root, where srun is. Users
 * can set it to what they like. What was taken is what srun would have written. */
#include "fuzz.h"
#include "plugin.h"

struct gs_spec gs_spec; /* the site's, which the user's keys are put on */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), once[GS_RDZV_SIZE], twice[GS_RDZV_SIZE];
    struct gs_rdzv rdzv, again;
    struct gs_error error = {""};

    gs_spec_init(&gs_spec);
    memset(&rdzv, 0xa5, sizeof(rdzv));
    again = rdzv;
    if (gs_rdzv_decode(text, &rdzv, &error) == 0) {
        MUST(gs_rdzv_encode(&rdzv, once, sizeof(once)) == 0);
        MUST(gs_rdzv_decode(once, &again, &error) == 0);
        MUST(gs_rdzv_encode(&again, twice, sizeof(twice)) == 0);
        MUST(strcmp(once, twice) == 0);
        MUST(memcmp(rdzv.key, again.key, sizeof(rdzv.key)) == 0);
    } else {
        MUST(error.text[0]);
        MUST(memcmp(&rdzv, &again, sizeof(rdzv)) == 0);
    }
    free(text);
    return 0;
}
