/* iface.c - see iface.h. An unreadable interface list is an error, never an empty
 * list that looks like a node without network. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error_private.h"
#include "iface.h"
#include "net_private.h"

/* Made by container and VM software; they carry the same address on every host. */
static const char *const local_bridges[] = {
    "docker",
    "br-",
    "virbr",
    "lxcbr",
    "lxdbr",
    "podman",
    "cni",
    "flannel",
    "cali",
    "veth",
};

int gs_iface_list(struct gs_iface *ret_ifaces, struct gs_error *error)
{
    struct ifaddrs *list;
    int count = 0;

    if (getifaddrs(&list) < 0)
        return gs_error_set(
            error, errno, "the network interfaces cannot be read: %s", strerror(errno));
    for (const struct ifaddrs *i = list; i && count < GS_IFACE_MAX; i = i->ifa_next) {
        struct gs_iface *one = &ret_ifaces[count];
        if (!i->ifa_addr)
            continue;
        gs_net_text(i->ifa_addr, one->address);
        if (!one->address[0])
            continue;
        snprintf(one->name, sizeof(one->name), "%s", i->ifa_name);
        one->up = (i->ifa_flags & IFF_UP) && (i->ifa_flags & IFF_RUNNING);
        one->loopback = (i->ifa_flags & IFF_LOOPBACK) != 0;
        count++;
    }
    freeifaddrs(list);
    return count;
}

static int to_bytes(const char *address, uint8_t bytes[16])
{
    if (inet_pton(AF_INET, address, bytes) == 1)
        return 4;
    return inet_pton(AF_INET6, address, bytes) == 1 ? 16 : 0;
}

/* Whether address lies in "a.b.c.d/n" or "x::/n". */
static bool in_cidr(const char *address, const char *cidr)
{
    char net[GS_ADDR_SIZE];
    uint8_t a[16], b[16];
    const char *slash = strchr(cidr, '/');
    char *end;
    long bits;
    int size;

    if (!slash || (size_t)(slash - cidr) >= sizeof(net))
        return false;
    memcpy(net, cidr, (size_t)(slash - cidr));
    net[slash - cidr] = '\0';
    bits = strtol(slash + 1, &end, 10);
    if (!isdigit((unsigned char)slash[1]) || *end)
        return false;
    size = to_bytes(net, b);
    if (!size || to_bytes(address, a) != size || bits < 0 || bits > size * 8)
        return false;
    for (long i = 0; i < bits; i++)
        if ((a[i / 8] ^ b[i / 8]) & (0x80 >> (i % 8)))
            return false;
    return true;
}

static bool is_link_local(const char *address)
{
    return in_cidr(address, "169.254.0.0/16") || in_cidr(address, "fe80::/10");
}

static bool is_local_bridge(const char *name)
{
    for (size_t i = 0; i < sizeof(local_bridges) / sizeof(local_bridges[0]); i++)
        if (strncmp(name, local_bridges[i], strlen(local_bridges[i])) == 0)
            return true;
    return false;
}

/* Lower is better; -1 = not usable. why is for the report. */
static int score(const struct gs_iface *iface,
                 const char *wanted,
                 const char *toward,
                 const char **why)
{
    bool v6 = strchr(iface->address, ':') != NULL;
    bool link_local = is_link_local(iface->address);

    if (!iface->up || (v6 && link_local)) /* that needs a scope, which has no place */
        return -1;
    if (wanted[0]) {
        if (strcmp(iface->name, wanted) != 0 && !in_cidr(iface->address, wanted))
            return -1;
        *why = "chosen by master-iface";
        return link_local ? 2 : v6;
    }
    if (iface->loopback || link_local)
        return -1;
    *why = "carries Slurm's own traffic to srun";
    if (strcmp(iface->address, toward) == 0)
        return 0;
    if (is_local_bridge(iface->name))
        return -1;
    *why = "another address of the node";
    return 1 + v6;
}

static int complain(const struct gs_iface *ifaces,
                    uint32_t count,
                    const char *wanted,
                    struct gs_error *error)
{
    char list[300] = "";

    for (uint32_t i = 0; i < count; i++) {
        size_t used = strlen(list);
        snprintf(list + used,
                 sizeof(list) - used,
                 "%s%s %s%s",
                 i ? ", " : "",
                 ifaces[i].name,
                 ifaces[i].address,
                 ifaces[i].up ? "" : " (down)");
    }
    return gs_error_set(error,
                        EADDRNOTAVAIL,
                        "no address for MASTER_ADDR: %s%s%s (there is: %s)",
                        wanted[0] ? "master-iface=" : "",
                        wanted[0] ? wanted
                                  : "no interface that other nodes could reach",
                        wanted[0] ? " matches no usable interface" : "",
                        count ? list : "nothing");
}

int gs_iface_rank(const struct gs_iface *ifaces,
                  uint32_t count,
                  const char *wanted,
                  const char *toward,
                  struct gs_candidate *ret_candidates,
                  struct gs_error *error)
{
    int found = 0;

    for (int want = 0; want <= 2; want++) {
        for (uint32_t i = 0; i < count && found < GS_CANDIDATE_MAX; i++) {
            const char *why = "";
            struct gs_candidate *one = &ret_candidates[found];
            if (score(&ifaces[i], wanted, toward, &why) != want)
                continue;
            memset(one, 0, sizeof(*one));
            snprintf(one->address, sizeof(one->address), "%s", ifaces[i].address);
            snprintf(one->interface, sizeof(one->interface), "%s", ifaces[i].name);
            snprintf(one->why, sizeof(one->why), "%s", why);
            found++;
        }
    }
    return found ? found : complain(ifaces, count, wanted, error);
}
