"""Where the ranks meet: MASTER_PORT held by rank 0, and proof that all reach it.

A connection alone proves nothing, since the same private address may exist on every
host: the holder answers a nonce with a seal that only a rank of this start can make.
"""

from __future__ import annotations

import errno
import socket
import time

from gangstart import core, iface
from gangstart.errors import GangstartError
from gangstart.port import choose_port
from gangstart.record import Record
from gangstart.run.link import connected
from gangstart.story import Offer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gangstart.iface import Candidate, Iface

ASK = b"GSM1"
DOMAIN = b"M"
TRY_S = 0.2  # one connect; a lost SYN costs this, not a second
PROVE_S = 1.5
PEER_S = 2.0
BACKLOG = 128
SCARCE = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
EPHEMERAL = "/proc/sys/net/ipv4/ip_local_port_range"


def listen(port: int) -> socket.socket:
    """Listen on a port of every address, 0 = any port; raises OSError."""
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        made.bind(("", port))
        made.listen(BACKLOG)
        made.setblocking(False)  # noqa: FBT003 - the method's own signature
    except OSError:
        made.close()
        raise
    return made


def accepted(listening: socket.socket) -> Iterator[socket.socket]:
    """Whoever waits to be accepted now; never blocks.

    Raises GangstartError where this process or node may not have one more socket:
    those who wait would wait, and the socket be ready, for ever.
    """
    while True:
        try:
            peer, _ = listening.accept()
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno in SCARCE:
                raise GangstartError(
                    f"rank 0 cannot take one more connection: {error.strerror}; allow "
                    "it more than one for each rank (ulimit -n)",
                    exit_code=core.EXIT_CONFIG,
                ) from error
            continue  # who waited has given up
        yield peer


def listen_inside(
    step: tuple[int, int], node: str, ports: tuple[int, int], wanted: str = ""
) -> tuple[socket.socket, int]:
    """Listen on ``wanted``, or the step's first free candidate; raises GangstartError.

    ports: the site's, 0 0 = any.
    """
    taken: list[socket.socket] = []

    def take(port: int) -> bool:
        try:
            taken.append(listen(port))
        except OSError:
            return False
        return True

    allowed = [ports] if ports[1] else []
    rules = core.PortRules(ephemeral=ephemeral_range(), allowed=allowed)
    port = choose_port(step, node, take, wanted=wanted, rules=rules)
    return taken[0], port


class Holder:
    """MASTER_PORT, bound from the choice to the release; answers who asks."""

    def __init__(
        self,
        step: tuple[int, int],
        node: str,
        wanted: str,
        ports: tuple[int, int] = (0, 0),
    ) -> None:
        """Take ``wanted``, or the first free candidate; raises GangstartError."""
        self._held: socket.socket | None
        self._peers: dict[socket.socket, tuple[float, bytes]] = {}
        self._held, self.port = listen_inside(step, node, ports, wanted)

    def serve(self, key: bytes) -> None:
        """Answer what is ready; never blocks. Raises GangstartError: see accepted."""
        if self._held is None:
            return
        for peer in accepted(self._held):
            peer.setblocking(False)  # noqa: FBT003 - the method's own signature
            self._peers[peer] = (time.monotonic() + PEER_S, b"")
        for peer in list(self._peers):
            if self._is_done(peer, key):
                del self._peers[peer]
                peer.close()

    def _is_done(self, peer: socket.socket, key: bytes) -> bool:
        until, got = self._peers[peer]
        size = len(ASK) + iface.NONCE_SIZE
        try:
            data = peer.recv(size - len(got) or 1)
        except BlockingIOError:
            return time.monotonic() > until
        except OSError:
            return True
        got += data
        self._peers[peer] = (until, got)
        if not data or len(got) > size:
            return True
        if len(got) == size and got.startswith(ASK):
            peer.send(iface.seal(key, DOMAIN, got))
        return False

    def close(self) -> None:
        """Give the port up for the program."""
        for peer in self._peers:
            peer.close()
        self._peers.clear()
        if self._held is not None:
            self._held.close()
            self._held = None


def ephemeral_range() -> tuple[int, int] | None:
    """Ports that this node's kernel hands to any connection; None: not known."""
    try:
        with open(EPHEMERAL, encoding="ascii") as file:
            low, high = file.read().split()
    except (OSError, ValueError):
        return None
    return int(low), int(high)


def addresses_of(name: str) -> list[str]:
    """Numeric addresses that a name has on this node; empty if it has none."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def offer(  # noqa: PLR0913 - one argument per thing that decides it
    node: str,
    port: int,
    spec: core.Spec,
    *,
    found: Sequence[Iface],
    user: tuple[str, str] = ("", ""),
    toward: str = "",
    alone: bool = False,
) -> Offer:
    """Choose the addresses to try on rank 0's node; raises GangstartError.

    found: this node's addresses; user: MASTER_ADDR and MASTER_PORT that the user set;
    toward: the address that Slurm's own traffic uses, "" = not known; alone: there is
    no other node.
    """
    user_port = bool(user[1])
    if user[0]:
        own = [
            iface.Candidate(address, one.name, "MASTER_ADDR set by the user")
            for address in addresses_of(user[0])
            for one in found
            if one.address == address
        ]
        return Offer(node, port, own, user[0], user_address=True, user_port=user_port)
    candidates = usable(found, spec.master_iface, toward, alone=alone)
    if not alone and all(is_loopback(one.address) for one in candidates):
        raise GangstartError(
            "master-iface names the loopback, where every node would meet itself: name "
            "an interface or network that the nodes share",
            exit_code=core.EXIT_CONFIG,
        )
    name = node if spec.master_name else ""
    return Offer(
        node, port, candidates, name, user_port=user_port, must_match=bool(name)
    )


def usable(
    found: Sequence[Iface], wanted: str, toward: str, *, alone: bool
) -> list[Candidate]:
    """The core's order; a lone node that has only the loopback meets itself there."""
    try:
        return iface.rank(list(found), wanted, toward)
    except GangstartError:
        loopback = [one for one in found if one.loopback and one.up]
        if wanted or not alone or not loopback:
            raise
        only = loopback[0]
        return [iface.Candidate(only.address, only.name, "the only address here")]


def is_loopback(address: str) -> bool:
    """Whether an address means the node itself wherever it is used."""
    return address.startswith("127.") or address == "::1"


class Reach(Record):
    """How a try to reach rank 0's node ended; see struct gs_reach of wire.h."""

    result: str  # ok, connect, stranger, resolve, elsewhere
    detail: int = 0  # errno
    text: str = ""
    rtt_s: float = 0.0


def try_reach(address: str, port: int, key: bytes, name: str, match: str) -> Reach:
    """Resolve ``name`` if there is one, then prove ``address``; takes up to PROVE_S.

    match: the address that the name must have here, "" = any.
    """
    if name:
        known = addresses_of(name)
        if not known:
            return Reach("resolve")
        if match and match not in known:
            return Reach("elsewhere", text=known[0])
    return prove(address, port, key) if address else Reach("ok")


def prove(address: str, port: int, key: bytes) -> Reach:
    """Connect and have the holder answer; tried again until PROVE_S have passed."""
    until = time.monotonic() + PROVE_S
    while True:
        found = ask_once(address, port, key, until)
        if found.result != "connect" or time.monotonic() >= until:
            return found
        time.sleep(0.02)  # between two tries of a port that refuses at once


def ask_once(address: str, port: int, key: bytes, until: float) -> Reach:
    """One try."""
    try:
        return ask(address, port, key, until)
    except OSError as error:
        return Reach("connect", error.errno or errno.ETIMEDOUT)


def ask(address: str, port: int, key: bytes, until: float) -> Reach:
    """One try; raises OSError."""
    began = time.monotonic()
    nonce = ASK + iface.random_bytes(iface.NONCE_SIZE)
    with connected(address, port, TRY_S) as peer:
        peer.sendall(nonce)
        got = b""
        while len(got) < iface.MAC_SIZE:
            peer.settimeout(max(until - time.monotonic(), 0.001))
            more = peer.recv(iface.MAC_SIZE - len(got))
            if not more:
                break
            got += more
    right = iface.same(got, iface.seal(key, DOMAIN, nonce))
    rtt = time.monotonic() - began
    return Reach("ok", rtt_s=rtt) if right else Reach("stranger")


class Prober:
    """One try at a time, beside everything else."""

    def __init__(self) -> None:
        """Idle."""
        self._round = -1
        self._result: tuple[int, Reach] | None = None

    def start(
        self, turn: int, address: str, port: int, key: bytes, name: tuple[str, str]
    ) -> None:
        """Begin; a try under way is forgotten. name: it, and what it must be."""
        import threading  # noqa: PLC0415 - one rank of each node tries

        self._round = turn

        def work() -> None:
            found = try_reach(address, port, key, *name)
            self._result = (turn, found)

        threading.Thread(target=work, daemon=True).start()

    def take(self) -> tuple[int, Reach] | None:
        """The result of the newest try, once."""
        taken = self._result
        if taken is None or taken[0] != self._round:
            return None
        self._result = None
        return taken
