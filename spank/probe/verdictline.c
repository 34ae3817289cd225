/* verdictline.c - see verdictline.h. */
#include <stdlib.h>

#include "clock_private.h"
#include "health.h"
#include "hostlist.h"
#include "json_private.h"
#include "print.h"
#include "verdictline.h"

#define EXIT_CONFIG 78

static char *line_of(const struct gs_health *health)
{
    char *sentence = gs_health_sentence(health);
    struct gs_strbuf line = {0};

    gs_strbuf_add(&line, "{");
    gs_json_text(&line, "verdict", gs_verdict_name(health->verdict));
    gs_json_flag(&line, "drain", health->judged && health->found.drain);
    gs_json_text(&line, "sentence", sentence ? sentence : "");
    gs_strbuf_add(&line, "}");
    gs_text_free(sentence);
    return gs_strbuf_take(&line);
}

int gs_probe_verdict(const struct gs_gpus *gpus, const char *conf)
{
    static struct gs_policy policy;
    const struct gs_health_ask ask = {.policy = &policy};
    struct gs_health *health;
    struct gs_error error;

    gs_policy_init(&policy);
    if (gs_policy_load(&policy, conf ? conf : GS_POLICY_FILE, !conf, &error) < 0)
        return gs_probe_complain(EXIT_CONFIG, "gangstart-probe: %s", error.text);
    health = gs_health_judge(&ask, gpus, gs_clock_now_us());
    if (!health)
        return gs_probe_complain(EXIT_FAILURE, "gangstart-probe: out of memory");
    gs_probe_print_line(line_of(health));
    gs_health_destroy(health);
    return 0;
}
