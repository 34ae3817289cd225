/* masterpick.c - where the ranks meet: MASTER_ADDR and MASTER_PORT; see envplan.h.
 *
 * Priority: the user's own value, checked; what rank 0's node announced; the name of
 * the node that owns rank 0. A loopback address is never chosen for more than one node:
 * every node would meet itself there and wait until the framework's own time-out.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "envplan_private.h"
#include "portpick.h"

#define NAME_CHARACTERS "-._"

static bool is_numeric(const char *text)
{
    unsigned char bytes[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, text, bytes) == 1
           || inet_pton(AF_INET6, text, bytes) == 1;
}

/* Does an address, or a name by convention, mean "this node" wherever it is used? */
static bool is_loopback(const char *text)
{
    static const char *const names[] = {"localhost",
                                        "localhost.localdomain",
                                        "localhost4",
                                        "localhost6",
                                        "ip6-localhost",
                                        "ip6-loopback"};
    unsigned char b[sizeof(struct in6_addr)];
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
    size_t len = strlen(text);

    if (inet_pton(AF_INET, text, b) == 1)
        return b[0] == 127 || b[0] == 0;
    if (inet_pton(AF_INET6, text, b) == 1) {
        if (memcmp(b, mapped, sizeof(mapped)) == 0)
            return b[12] == 127 || b[12] == 0;
        for (int i = 0; i < 15; i++)
            if (b[i])
                return false;
        return b[15] <= 1;
    }
    if (len > 10 && strcasecmp(text + len - 10, ".localhost") == 0)
        return true;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcasecmp(text, names[i]) == 0)
            return true;
    return false;
}

/* A host name or a numeric address, not "host:port", a node list or several names. */
static bool is_address(const char *text)
{
    if (is_numeric(text))
        return true;
    if (strlen(text) > GS_HOSTNAME_MAX || strchr(NAME_CHARACTERS, text[0]))
        return false;
    for (const char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr(NAME_CHARACTERS, *c))
            return false;
    return true;
}

/* Was the user's name tried everywhere, and failed somewhere? */
static bool is_unresolvable(const struct gs_envfacts *facts, const char *name)
{
    if (facts->resolvable_count < 0 || is_numeric(name))
        return false;
    for (int32_t i = 0; i < facts->resolvable_count; i++)
        if (strcmp(facts->resolvable[i], name) == 0)
            return false;
    return true;
}

static bool has_address(const struct gs_resolved *row, const char *address)
{
    for (uint32_t i = 0; i < row->count; i++)
        if (strcmp(row->address[i], address) == 0)
            return true;
    return false;
}

/* The first loopback address among those of a row, or NULL. */
static const char *row_loopback(const struct gs_resolved *row)
{
    for (uint32_t i = 0; i < row->count; i++)
        if (is_loopback(row->address[i]))
            return row->address[i];
    return NULL;
}

/* Fails when a node cannot look up the name. */
static int resolution_check(const struct gs_envfacts *facts,
                            const char *name,
                            struct gs_envplan *plan)
{
    for (uint32_t i = 0; !is_numeric(name) && i < facts->resolved_count; i++) {
        const struct gs_resolved *row = &facts->resolved[i];

        if (strcmp(row->name, name) == 0 && row->count == 0)
            return gs_plan_fail(
                plan,
                GS_REASON_BAD_MASTER_ADDR,
                "node %s cannot resolve MASTER_ADDR=%s; add the name to "
                "DNS or /etc/hosts there, or use an address",
                row->node,
                name);
    }
    return 0;
}

/* The user's name must not lead a node to itself, but for rank 0's own. */
static int user_loopback_check(const struct gs_envfacts *facts,
                               const struct gs_stepinfo *info,
                               const char *addr,
                               struct gs_envplan *plan)
{
    for (uint32_t i = 0; i < facts->resolved_count; i++) {
        const struct gs_resolved *row = &facts->resolved[i];
        const char *loopback = row_loopback(row);

        if (strcmp(row->name, addr) != 0 || !loopback)
            continue;
        if (!info->rank0_node || strcmp(row->node, info->rank0_node) != 0)
            return gs_plan_fail(
                plan,
                GS_REASON_BAD_MASTER_ADDR,
                "node %s resolves MASTER_ADDR=%s to the loopback address "
                "%s and would meet itself; correct /etc/hosts there",
                row->node,
                addr,
                loopback);
        gs_plan_warn(plan,
                     GS_WARN_MASTER_LOOPBACK,
                     "rank 0's node %s resolves MASTER_ADDR=%s to the loopback address "
                     "%s; what listens only there is out of reach for the others",
                     row->node,
                     addr,
                     loopback);
    }
    return 0;
}

static bool is_listed(const struct gs_names *names, const char *name)
{
    for (uint32_t i = 0; i < names->count; i++)
        if (strcmp(names->name[i], name) == 0)
            return true;
    return false;
}

/* Warns when the user's MASTER_ADDR is by name another node of step or job than the one
 * that runs rank 0: rank 0 would listen on its node, everybody else call the other. */
static void elsewhere_warn(const char *const *env,
                           const struct gs_stepinfo *info,
                           const char *addr,
                           struct gs_envplan *plan)
{
    const char *job_list = gs_env_get(env, "SLURM_JOB_NODELIST");
    struct gs_names job = {0};
    bool node = is_listed(&info->hosts, addr);

    if (!info->rank0_node || strcmp(addr, info->rank0_node) == 0)
        return;
    if (!node && job_list && gs_hostlist_expand(job_list, &job, NULL) == 0)
        node = is_listed(&job, addr);
    gs_names_free(&job);
    if (node)
        gs_plan_warn(
            plan,
            GS_WARN_MASTER_ELSEWHERE,
            "MASTER_ADDR=%s was set before, but rank 0 runs on %s; unset it to "
            "have that node used",
            addr,
            info->rank0_node);
}

/* Checks the user's own MASTER_ADDR. */
static int user_check(const struct gs_envfacts *facts,
                      const struct gs_stepinfo *info,
                      const char *addr,
                      struct gs_envplan *plan)
{
    int rc;

    if (!is_address(addr))
        return gs_plan_fail(
            plan,
            GS_REASON_BAD_MASTER_ADDR,
            "MASTER_ADDR='%.120s' is not one host name or address (no "
            "port, no list, no URL); correct it, or unset it to have it "
            "chosen",
            addr);
    if (info->nodes > 1 && is_loopback(addr))
        return gs_plan_fail(
            plan,
            GS_REASON_BAD_MASTER_ADDR,
            "MASTER_ADDR=%s is a loopback address: on %u nodes every node "
            "would meet itself; unset it to have rank 0's node chosen",
            addr,
            info->nodes);
    rc = resolution_check(facts, addr, plan);
    if (rc == 0 && is_unresolvable(facts, addr))
        rc = gs_plan_fail(plan,
                          GS_REASON_BAD_MASTER_ADDR,
                          "MASTER_ADDR=%s does not resolve on every node; correct the "
                          "name or use an address",
                          addr);
    if (rc == 0 && info->nodes > 1)
        rc = user_loopback_check(facts, info, addr, plan);
    return rc;
}

/* The first address that every node with an answer of its own agrees on: in every row
 * for the name but those that only know a loopback. NULL if there is none. */
static const char *common_address(const struct gs_envfacts *facts, const char *name)
{
    for (uint32_t i = 0; i < facts->resolved_count; i++) {
        const struct gs_resolved *row = &facts->resolved[i];

        for (uint32_t k = 0; strcmp(row->name, name) == 0 && k < row->count; k++) {
            bool common = !is_loopback(row->address[k]);

            for (uint32_t j = 0; common && j < facts->resolved_count; j++) {
                const struct gs_resolved *other = &facts->resolved[j];

                common = strcmp(other->name, name) != 0 || row_loopback(other)
                         || has_address(other, row->address[k]);
            }
            if (common)
                return row->address[k];
        }
    }
    return NULL;
}

/* Our own choice of a node's name: as it is while every node's answers fit, else the
 * address that all real answers share. */
static int name_pick(const struct gs_envfacts *facts,
                     const struct gs_stepinfo *info,
                     struct gs_envplan *plan,
                     const char **ret_addr)
{
    const char *name = info->rank0_node;
    const char *common = common_address(facts, name);
    const struct gs_resolved *odd = NULL;
    int rc = resolution_check(facts, name, plan);

    *ret_addr = name;
    if (rc || info->nodes == 1)
        return rc;
    for (uint32_t i = 0; i < facts->resolved_count; i++) {
        const struct gs_resolved *row = &facts->resolved[i];

        if (strcmp(row->name, name) == 0 && (row_loopback(row) || !common))
            odd = row;
    }
    if (odd && common) {
        *ret_addr = common;
        gs_plan_warn(plan,
                     GS_WARN_MASTER_LOOPBACK,
                     "node %s resolves %s to a loopback address, so MASTER_ADDR is the "
                     "address %s that the others see",
                     odd->node,
                     name,
                     common);
    } else if (odd) {
        return gs_plan_fail(plan,
                            GS_REASON_BAD_MASTER_ADDR,
                            "the nodes do not agree on the address of rank 0's node %s "
                            "(node %s says %s); correct DNS or /etc/hosts",
                            name,
                            odd->node,
                            odd->address[0]);
    }
    return 0;
}

/* Our own MASTER_ADDR. */
static int own_pick(const struct gs_envfacts *facts,
                    const struct gs_stepinfo *info,
                    struct gs_envplan *plan,
                    const char **ret_addr)
{
    int rc = 0;

    if (facts->master_addr && facts->master_addr[0])
        *ret_addr = facts->master_addr;
    else if (info->rank0_node)
        rc = name_pick(facts, info, plan, ret_addr);
    else
        return gs_plan_fail(
            plan,
            GS_REASON_RANK0_UNKNOWN,
            "which node runs rank 0 is not known: in a heterogeneous step "
            "or with an arbitrary distribution SLURM_STEP_NODELIST does "
            "not tell; set MASTER_ADDR");
    if (rc == 0 && !is_address(*ret_addr))
        return gs_plan_fail(
            plan,
            GS_REASON_BAD_MASTER_ADDR,
            "'%.120s', where rank 0 runs, is not a host name or address",
            *ret_addr);
    if (rc == 0 && info->nodes > 1 && is_loopback(*ret_addr))
        return gs_plan_fail(
            plan,
            GS_REASON_BAD_MASTER_ADDR,
            "rank 0's node is only known as %s, a loopback address: on %u "
            "nodes every node would meet itself; set master-iface= or "
            "correct NodeAddr",
            *ret_addr,
            info->nodes);
    return rc;
}

/* The user's value of a variable: set, not empty, not left over from an outer gang. */
static const char *user_value(const char *const *env,
                              const struct gs_stepinfo *info,
                              enum gs_env_var var)
{
    if (gs_env_is_stale(env, info->step, var))
        return NULL;
    return gs_env_get(env, gs_env_var_name(var));
}

static int port_pick(const struct gs_envfacts *facts,
                     const struct gs_stepinfo *info,
                     const char *user,
                     struct gs_envplan *plan,
                     uint16_t *ret_port)
{
    struct gs_portrules rules;
    struct gs_error error;
    int rc = 0;

    if (user) {
        rc = gs_port_read(user, ret_port, &error);
    } else if (facts->master_port >= GS_PORT_MIN && facts->master_port <= GS_PORT_MAX) {
        *ret_port = (uint16_t)facts->master_port;
    } else if (facts->master_port) {
        return gs_plan_fail(plan,
                            GS_REASON_BAD_MASTER_PORT,
                            "rank 0's node announced port %u; ports are 1024 to 65535",
                            facts->master_port);
    } else {
        gs_portrules_init(&rules);
        rc =
            gs_port_candidate(&rules, info->job_id, info->step_id, 0, ret_port, &error);
    }
    if (rc < 0)
        return gs_plan_fail(plan, GS_REASON_BAD_MASTER_PORT, "%s", error.text);
    return 0;
}

int gs_master_pick(const char *const *env,
                   const struct gs_envfacts *facts,
                   const struct gs_stepinfo *info,
                   struct gs_envplan *plan,
                   struct gs_master *ret_master)
{
    const char *addr = user_value(env, info, GS_VAR_MASTER_ADDR);
    const char *user_port = user_value(env, info, GS_VAR_MASTER_PORT);
    bool user_addr = addr != NULL;
    uint16_t port = 0;
    int rc = user_addr ? user_check(facts, info, addr, plan)
                       : own_pick(facts, info, plan, &addr);

    if (rc == 0)
        rc = port_pick(facts, info, user_port, plan, &port);
    if (rc || !addr)
        return rc;
    if (user_addr)
        elsewhere_warn(env, info, addr, plan);
    snprintf(ret_master->addr, sizeof(ret_master->addr), "%s", addr);
    snprintf(ret_master->port, sizeof(ret_master->port), "%u", port);
    ret_master->user_addr = user_addr;
    ret_master->user_port = user_port != NULL;
    return 0;
}
