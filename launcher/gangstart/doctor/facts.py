"""What gangstart-probe --facts told about one node. Pure: no I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

LINE = re.compile(r"([a-z][a-z0-9_]{0,31})=(.{0,1100})")
LINES_MAX = 400
LABEL = re.compile(r"\s*(\d{1,9}): ?(.*)")
INTEGER = re.compile(r"-?\d{1,19}")
GREETING = "gangstart"
CONNECTED = 6  # words of a connection that was answered


class Connection(NamedTuple):
    """One attempt of a node to reach this machine."""

    target: str
    problem: str  # "" = it did
    local: str = ""  # the node's own address on the way
    took_us: int = 0
    node_time_us: int = 0  # when it had read the answer, by its clock
    greeting: tuple[str, ...] = ()  # what was answered

    @property
    def sent_us(self) -> int | None:
        """When this machine sent its answer, by its own clock; None = not ours."""
        words = self.greeting
        if len(words) != 3 or words[0] != GREETING or not INTEGER.fullmatch(words[2]):  # noqa: PLR2004
            return None
        return int(words[2])


class Interface(NamedTuple):
    """One address of a node."""

    name: str
    address: str
    up: bool
    mtu: int | None


@dataclass(frozen=True)
class Facts:
    """The facts of a node; each key has all its values, in the order they came."""

    node: str
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    problem: str = ""  # why there are no facts

    def one(self, key: str) -> str:
        """Return the last value of a key, "" if it was not told."""
        return self.values.get(key, ("",))[-1]

    def all(self, key: str) -> tuple[str, ...]:
        """Return every value of a key."""
        return self.values.get(key, ())

    def number(self, key: str) -> int | None:
        """Return a value as an integer, None if it is none."""
        text = self.one(key)
        return int(text) if INTEGER.fullmatch(text) else None

    @property
    def told(self) -> bool:
        """Whether the probe said anything."""
        return "facts" in self.values

    @property
    def hung(self) -> str:
        """Return what the probe asked last and had no answer from; "" = nothing."""
        return self.one("asking") if self.told and "end" not in self.values else ""

    def folder(self, key: str) -> str:
        """Return "ok …", "failed: …" or "hangs" of a path; "" = not asked."""
        return self.one(key).partition(" ")[2]

    @property
    def changed(self) -> dict[str, int]:
        """Path -> when it was last changed, of the files that could be looked at."""
        pairs = (text.rpartition(" ") for text in self.all("file"))
        return {p: int(t) for p, _, t in pairs if INTEGER.fullmatch(t)}

    @property
    def connections(self) -> list[Connection]:
        """What it tried to reach."""
        return [connection(text) for text in self.all("connect")]

    @property
    def interfaces(self) -> list[Interface]:
        """Its addresses."""
        rows = (text.split() for text in self.all("iface"))
        return [
            Interface(name, address, state == "up", int(mtu) if mtu.isdigit() else None)
            for name, address, state, mtu in (r for r in rows if len(r) == 4)  # noqa: PLR2004
        ]

    @property
    def chosen(self) -> Interface | None:
        """Return the interface that MASTER_ADDR would be taken from, None if none."""
        name, _, address = self.one("chosen").partition(" ")
        rows = [i for i in self.interfaces if (i.name, i.address) == (name, address)]
        return rows[0] if rows else None


def connection(text: str) -> Connection:
    """Read a line of the probe: TARGET ok … or TARGET failed: WHY."""
    target, _, rest = text.partition(" ")
    words = rest.split()
    if words[:1] != ["ok"] or len(words) < CONNECTED - 1:
        return Connection(target, rest.removeprefix("failed: ") or "no answer")
    took, own = (int(w) if INTEGER.fullmatch(w) else 0 for w in words[2:4])
    return Connection(target, "", words[1], took, own, tuple(words[4:]))


def parse(node: str, text: str) -> Facts:
    """Read what a probe printed; lines that are no KEY=VALUE are told if alone."""
    values: dict[str, list[str]] = {}
    other = ""
    for line in text.splitlines()[:LINES_MAX]:
        match = LINE.fullmatch(line.strip())
        if match:
            values.setdefault(match[1], []).append(match[2])
        elif line.strip():
            other = line.strip()
    told = {key: tuple(found) for key, found in values.items()}
    if "facts" in told:
        return Facts(node, told)
    return Facts(node, told, problem=told.get("problem", (other,))[-1])


def by_label(text: str) -> dict[str, str]:
    """Split the output of srun --label by the node that each task says it is on."""
    tasks: dict[str, list[str]] = {}
    for line in text.splitlines():
        match = LABEL.fullmatch(line)
        if match:
            tasks.setdefault(match[1], []).append(match[2])
    blocks = (lines for lines in tasks.values() if lines[0].startswith("node="))
    return {lines[0].partition("=")[2]: "\n".join(lines) for lines in blocks}
