/* net.c - see net_private.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "error_private.h"
#include "net_private.h"

#define BACKLOG 4096

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_storage room;
};

static int stream(int family)
{
    return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static void set_int(int fd, int level, int option, int value)
{
    setsockopt(fd, level, option, &value, sizeof(value));
}

static int listen_on(int family, uint16_t port, bool reuse)
{
    union address address = {0};
    socklen_t size = family == AF_INET6 ? sizeof(address.v6) : sizeof(address.v4);
    int fd = stream(family), rc;

    if (fd < 0)
        return -errno;
    address.any.sa_family = (sa_family_t)family;
    if (family == AF_INET6) {
        set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
        address.v6.sin6_port = htons(port);
    } else {
        address.v4.sin_port = htons(port);
    }
    if (reuse)
        set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (bind(fd, &address.any, size) < 0 || listen(fd, BACKLOG) < 0) {
        rc = -errno;
        close(fd);
        return rc;
    }
    return fd;
}

int gs_net_listen(uint16_t port, bool reuse)
{
    int fd = listen_on(AF_INET6, port, reuse);

    if (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL)
        fd = listen_on(AF_INET, port, reuse);
    return fd;
}

int gs_net_listen_range(
    uint16_t lo, uint16_t hi, uint32_t seed, uint16_t *ret_port, struct gs_error *error)
{
    uint32_t count = lo ? (uint32_t)hi - lo + 1 : 1;
    int fd = -EINVAL;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t port = lo ? lo + (seed + i) % count : 0;
        fd = gs_net_listen((uint16_t)port, false);
        if (fd >= 0) {
            *ret_port = (uint16_t)gs_net_port(fd);
            return fd;
        }
        if (fd != -EADDRINUSE && fd != -EACCES)
            break;
    }
    return gs_error_set(error,
                        -fd,
                        "no port of %u-%u can be listened on for the start barrier: %s",
                        lo,
                        hi,
                        strerror(-fd));
}

int gs_net_port(int fd)
{
    union address address;
    socklen_t size = sizeof(address);

    if (getsockname(fd, &address.any, &size) < 0)
        return -errno;
    return ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port
                                                   : address.v4.sin_port);
}

int gs_net_connect(const char *address, uint16_t port)
{
    union address to = {0};
    socklen_t size;
    int fd, rc;

    if (inet_pton(AF_INET, address, &to.v4.sin_addr) == 1) {
        to.v4.sin_family = AF_INET;
        to.v4.sin_port = htons(port);
        size = sizeof(to.v4);
    } else if (inet_pton(AF_INET6, address, &to.v6.sin6_addr) == 1) {
        to.v6.sin6_family = AF_INET6;
        to.v6.sin6_port = htons(port);
        size = sizeof(to.v6);
    } else {
        return -EINVAL;
    }
    fd = stream(to.any.sa_family);
    if (fd < 0)
        return -errno;
    if (connect(fd, &to.any, size) < 0 && errno != EINPROGRESS) {
        rc = -errno;
        close(fd);
        return rc;
    }
    return fd;
}

int gs_net_connected(int fd)
{
    int code = 0;
    socklen_t size = sizeof(code);

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) < 0)
        return -errno;
    return -code;
}

int gs_net_accept(int fd)
{
    int peer = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    return peer < 0 ? -errno : peer;
}

void gs_net_tune(int fd, unsigned dead_ms)
{
    set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, 2);
    set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, 2);
    set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
    set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)dead_ms);
}

unsigned gs_net_unacked_ms(int fd)
{
    struct tcp_info info;
    socklen_t size = sizeof(info);

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
        return 0;
    return info.tcpi_unacked ? info.tcpi_last_ack_recv : 0;
}

void gs_net_text(const struct sockaddr *address, char ret_text[GS_ADDR_SIZE])
{
    const union address *a = (const union address *)address;
    const struct in6_addr *v6 = &a->v6.sin6_addr;

    ret_text[0] = '\0';
    if (a->any.sa_family == AF_INET)
        inet_ntop(AF_INET, &a->v4.sin_addr, ret_text, GS_ADDR_SIZE);
    else if (a->any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(v6))
        inet_ntop(AF_INET, &v6->s6_addr[12], ret_text, GS_ADDR_SIZE);
    else if (a->any.sa_family == AF_INET6)
        inet_ntop(AF_INET6, v6, ret_text, GS_ADDR_SIZE);
}

void gs_net_local_text(int fd, char ret_text[GS_ADDR_SIZE])
{
    union address address;
    socklen_t size = sizeof(address);

    ret_text[0] = '\0';
    if (getsockname(fd, &address.any, &size) == 0)
        gs_net_text(&address.any, ret_text);
}

void gs_net_peer_text(int fd, char ret_text[GS_ADDR_SIZE])
{
    union address address;
    socklen_t size = sizeof(address);

    ret_text[0] = '\0';
    if (getpeername(fd, &address.any, &size) == 0)
        gs_net_text(&address.any, ret_text);
}

void gs_net_reset(int fd)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    close(fd);
}
