/* net_private.h - sockets, numeric addresses only. No resolver is ever asked here.
 * Every descriptor is non-blocking and closes on exec. */
#ifndef GS_NET_PRIVATE_H
#define GS_NET_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "error.h"
#include "wire.h"

/* Listens on all addresses, IPv6 and IPv4 together where the host has IPv6. port 0 =
 * any. reuse: allow a port with connections in TIME_WAIT. Returns the descriptor or
 * -errno. */
int gs_net_listen(uint16_t port, bool reuse);

/* Listens on a free port of lo..hi (0, 0 = any), starting at a place given by seed so
 * that steps starting together do not all knock at the same port. Returns the
 * descriptor and *ret_port, or -errno with a sentence naming the range. */
int gs_net_listen_range(uint16_t lo,
                        uint16_t hi,
                        uint32_t seed,
                        uint16_t *ret_port,
                        struct gs_error *error);

/* The port a socket is bound to, or -errno. */
int gs_net_port(int fd);

/* Starts a connection to a numeric address; completion is POLLOUT, then
 * gs_net_connected(). Returns the descriptor or -errno. */
int gs_net_connect(const char *address, uint16_t port);

/* Outcome of a started connection: 0 or -errno. */
int gs_net_connected(int fd);

/* Accepts one connection, or -errno (-EAGAIN: none is waiting). */
int gs_net_accept(int fd);

/* For connections of the barrier: no delay, keepalive, and an error after dead_ms
 * without acknowledgement. On a listening socket: for all that it accepts. Best
 * effort. */
void gs_net_tune(int fd, unsigned dead_ms);

/* How long the peer's kernel has left sent data unacknowledged, in ms; 0 = it has
 * everything. */
unsigned gs_net_unacked_ms(int fd);

/* Numeric text of a socket address; IPv4 in IPv6 is shown as IPv4. "" if neither. */
void gs_net_text(const struct sockaddr *address, char ret_text[GS_ADDR_SIZE]);
/* The local or the peer's address of a connected socket; "" if it has none. */
void gs_net_local_text(int fd, char ret_text[GS_ADDR_SIZE]);
void gs_net_peer_text(int fd, char ret_text[GS_ADDR_SIZE]);

/* Closes with a reset, so that no TIME_WAIT keeps the port. */
void gs_net_reset(int fd);

#endif
