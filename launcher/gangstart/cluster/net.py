"""Cables of the cluster: bridge, veth pairs and addresses, over rtnetlink.

Messages are built by pure functions; `Link` is the socket that sends them. A netlink
socket stays in the network namespace it was opened in, so one per node is all it takes.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

RTM_NEWLINK = 16
RTM_NEWADDR = 20
NLM_F_REQUEST = 0x1
NLM_F_ACK = 0x4
NLM_F_CREATE_NEW = 0x600
NLMSG_ERROR = 2
IFF_UP = 0x1
IFLA_ADDRESS = 1
IFLA_IFNAME = 3
IFLA_MASTER = 10
IFLA_LINKINFO = 18
IFLA_NET_NS_FD = 28
IFLA_INFO_KIND = 1
IFLA_INFO_DATA = 2
VETH_INFO_PEER = 1
IFA_ADDRESS = 1
IFA_LOCAL = 2
REPLY_DEADLINE_SECONDS = 10.0

BRIDGE = "br0"
#: A bridge otherwise takes the lowest address of its ports, and every node's ARP entry
#: of the head goes stale when one more cable is plugged in.
BRIDGE_MAC = bytes((0x02, 0x67, 0x73, 0, 0, 1))
#: No IPv6 address is made up for the cables: hundreds of them would chatter at start.
ADDR_GEN_MODE = "/proc/sys/net/ipv6/conf/default/addr_gen_mode"


def attribute(kind: int, data: bytes) -> bytes:
    """One netlink attribute, padded to four bytes."""
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def text(kind: int, value: str) -> bytes:
    """One netlink attribute that holds a string."""
    return attribute(kind, value.encode() + b"\0")


def number(kind: int, value: int) -> bytes:
    """One netlink attribute that holds a 32-bit number."""
    return attribute(kind, struct.pack("=I", value))


def link_header(index: int = 0, *, up: bool = False, change: bool = False) -> bytes:
    """Struct ifinfomsg: which link, and whether it is to be up or down."""
    flags, mask = (IFF_UP if up else 0), (IFF_UP if up or change else 0)
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, mask)


def link_info(kind: str, data: bytes = b"") -> bytes:
    """IFLA_LINKINFO: the kind of a new link and what that kind wants to know."""
    info = text(IFLA_INFO_KIND, kind)
    if data:
        info += attribute(IFLA_INFO_DATA, data)
    return attribute(IFLA_LINKINFO, info)


def new_bridge() -> bytes:
    """Ask for a bridge that is up."""
    name = text(IFLA_IFNAME, BRIDGE) + attribute(IFLA_ADDRESS, BRIDGE_MAC)
    return link_header(up=True) + name + link_info("bridge")


def new_cable(name: str, master: int, peer: str, peer_namespace: int) -> bytes:
    """Ask for a veth pair: `name` here in the bridge, `peer` in another namespace."""
    there = link_header() + text(IFLA_IFNAME, peer)
    there += number(IFLA_NET_NS_FD, peer_namespace)
    info = link_info("veth", attribute(VETH_INFO_PEER, there))
    here = text(IFLA_IFNAME, name) + number(IFLA_MASTER, master)
    return link_header(up=True) + here + info


def set_link(index: int, *, up: bool) -> bytes:
    """Ask for a link to go up or down."""
    return link_header(index, up=up, change=True)


def new_address(index: int, address: str, prefix_length: int) -> bytes:
    """Struct ifaddrmsg: an IPv4 address for a link."""
    raw = socket.inet_aton(address)
    header = struct.pack("=BBBBi", socket.AF_INET, prefix_length, 0, 0, index)
    return header + attribute(IFA_LOCAL, raw) + attribute(IFA_ADDRESS, raw)


class Link:
    """A conversation with the kernel about the network namespace it was opened in."""

    def __init__(self) -> None:
        """Open the socket in the current network namespace."""
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0
        )
        self._socket.settimeout(REPLY_DEADLINE_SECONDS)
        self._sequence = 0

    def __enter__(self) -> Link:
        """Return itself, to be closed at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the socket."""
        self._socket.close()

    def create(self, body: bytes, what: str) -> None:
        """Create a link."""
        self._ask(RTM_NEWLINK, NLM_F_CREATE_NEW, body, what)

    def add_address(self, body: bytes, what: str) -> None:
        """Give a link an address."""
        self._ask(RTM_NEWADDR, NLM_F_CREATE_NEW, body, what)

    def change(self, body: bytes, what: str) -> None:
        """Change a link that exists."""
        self._ask(RTM_NEWLINK, 0, body, what)

    def _ask(self, kind: int, flags: int, body: bytes, what: str) -> None:
        """Send one request and wait for its acknowledgement."""
        self._sequence += 1
        flags |= NLM_F_REQUEST | NLM_F_ACK
        header = struct.pack("=IHHII", 16 + len(body), kind, flags, self._sequence, 0)
        self._socket.send(header + body)
        reply = self._socket.recv(65536)
        (answer,) = struct.unpack_from("=H", reply, 4)
        (code,) = struct.unpack_from("=i", reply, 16)
        if answer != NLMSG_ERROR or code != 0:
            raise OSError(-code, os.strerror(-code), what)
