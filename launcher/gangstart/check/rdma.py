"""RDMA ports: one that is down where others of the node are up.

A node without RDMA has nothing to say, nor has one where every port is down: then it is
not known that they should be up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gangstart.check import catalogue
from gangstart.check.proc import read_file
from gangstart.check.result import clean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gangstart.check.result import Finding

FOLDER = Path("/sys/class/infiniband")
ACTIVE = "ACTIVE"
DISABLED = "Disabled"
VALUE_BYTES = 256
RATE = re.compile(r"([\d.]+) Gb/sec")


@dataclass(frozen=True)
class Port:
    """A port as sysfs shows it; "" = could not be read."""

    device: str
    number: str
    state: str  # ACTIVE, DOWN, INIT, ARMED
    physical: str  # LinkUp, Polling, Disabled
    rate: str  # "400 Gb/sec (4X NDR)"
    layer: str  # InfiniBand, Ethernet
    board: str

    def __str__(self) -> str:
        """Name as the tools of RDMA write it."""
        return f"{self.device}/{self.number}"

    @property
    def speed(self) -> float | None:
        """Rate in Gb/s."""
        found = RATE.match(self.rate)
        return float(found[1]) if found else None


def word(path: Path) -> str:
    """Text of a file of sysfs, without the number before it (``4: ACTIVE``)."""
    raw = read_file(path, VALUE_BYTES) or b""
    text = clean(raw.decode(errors="replace").strip())
    number, colon, name = text.partition(": ")
    return name if colon and number.isdigit() else text


def ports(folder: Path = FOLDER) -> list[Port]:
    """Every port of every device."""
    return list(read_ports(folder))


def read_ports(folder: Path) -> Iterator[Port]:
    """Read them in the order of their names."""
    for path in sorted(folder.glob("*/ports/*")):
        device = path.parent.parent
        yield Port(
            device=clean(device.name),
            number=clean(path.name),
            state=word(path / "state"),
            physical=word(path / "phys_state"),
            rate=word(path / "rate"),
            layer=word(path / "link_layer"),
            board=word(device / "board_id"),
        )


def judge(found: Sequence[Port]) -> list[Finding]:
    """Ports that are not as the others of their kind."""
    return [
        finding
        for port in found
        for finding in (down(port, found), slow(port, found))
        if finding is not None
    ]


def down(port: Port, others: Sequence[Port]) -> Finding | None:
    """A port that is not active, though others of its link layer are."""
    up = [o for o in others if o.state == ACTIVE and o.layer == port.layer]
    if port.state == ACTIVE or not up:
        return None
    named = ", ".join(str(one) for one in up[:4])
    if not port.state:
        return hit(port, "unknown", f"the state of RDMA port {port} cannot be read")
    # Somebody switched it off: no cable came loose.
    verdict = "ok" if port.physical == DISABLED else "warn"
    reason = (
        f"RDMA port {port} ({port.layer or 'link layer not known'}) is {port.state}, "
        f"physically {port.physical or 'not known'}, while {named} "
        f"{'are' if len(up) > 1 else 'is'} {ACTIVE}"
    )
    return hit(port, verdict, reason)


def slow(port: Port, others: Sequence[Port]) -> Finding | None:
    """A port that runs slower than others of the same board: lanes are missing."""
    same = [
        o.speed
        for o in others
        if o.state == ACTIVE and (o.board, o.layer) == (port.board, port.layer)
    ]
    best = max((speed for speed in same if speed is not None), default=0.0)
    if port.state != ACTIVE or not port.board or not port.speed or port.speed >= best:
        return None
    reason = (
        f"RDMA port {port} runs at {port.rate}, others of the same board at "
        f"{best:g} Gb/sec"
    )
    return hit(port, "warn", reason, value=port.rate, limit=f"{best:g} Gb/sec")


def hit(
    port: Port, verdict: str, reason: str, value: str = "", limit: str = ACTIVE
) -> Finding:
    """A finding about a port; what is ok is only noted."""
    return catalogue.hit(
        "rdma",
        reason,
        verdict=verdict,
        subject=str(port),
        value=value or port.state or "not readable",
        limit=limit,
    )
