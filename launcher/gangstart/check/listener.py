"""Who listens on which TCP port: /proc/PID/net/tcp and tcp6, by the socket's inode."""

from __future__ import annotations

import ipaddress
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gangstart.check.proc import Entry

TABLES = ("net/tcp", "net/tcp6")
TABLE_BYTES = 1 << 24
LISTEN = b"0A"
SOCKET = re.compile(r"socket:\[(\d{1,19})\]")
ADDRESS_BYTES = (4, 16)
PORTS = range(1, 65536)


@dataclass(frozen=True)
class Listener:
    """An address that a process accepts connections on."""

    address: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether only this node can reach it."""
        found = ipaddress.ip_address(self.address)
        mapped = found.ipv4_mapped if found.version == 6 else None  # noqa: PLR2004
        return bool((mapped or found).is_loopback)

    def __str__(self) -> str:
        """Address and port as people write them."""
        shown = f"[{self.address}]" if ":" in self.address else self.address
        return f"{shown}:{self.port}"


def parse_address(text: bytes) -> Listener | None:
    """Read ``0100007F:1F90``: words of 32 bits in the machine's own order."""
    host, _, port = text.partition(b":")
    try:
        raw = bytes.fromhex(host.decode())
        number = int(port, 16)
    except ValueError:
        return None
    if len(raw) not in ADDRESS_BYTES or number not in PORTS:
        return None
    if sys.byteorder == "little":
        raw = b"".join(raw[i : i + 4][::-1] for i in range(0, len(raw), 4))
    return Listener(str(ipaddress.ip_address(raw)), number)


def parse_table(raw: bytes) -> dict[int, Listener]:
    """Inode -> listener, of one table."""
    found: dict[int, Listener] = {}
    for line in raw.splitlines()[1:]:
        words = line.split(None, 10)
        if len(words) < 10 or words[3] != LISTEN or not words[9].isdigit():  # noqa: PLR2004
            continue
        listener = parse_address(words[1])
        if listener is not None:
            found[int(words[9])] = listener
    return found


def table_of(entry: Entry) -> dict[int, Listener]:
    """Every listener of the network that a process is in."""
    found: dict[int, Listener] = {}
    for name in TABLES:
        found.update(parse_table(entry.read(name, TABLE_BYTES) or b""))
    return found


def held_by(
    open_files: Iterable[str], table: Mapping[int, Listener]
) -> tuple[Listener, ...]:
    """The listeners among the files that a process has open."""
    inodes = (int(m[1]) for m in map(SOCKET.fullmatch, open_files) if m)
    found = {table[inode] for inode in inodes if inode in table}
    return tuple(sorted(found, key=lambda one: (one.port, one.address)))
