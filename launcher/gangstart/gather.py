"""Barriers as rank 0 keeps them: who has come, who is gone, what is decided. Pure.

Every rank numbers its own calls 1, 2, 3 … and each call is one barrier. At most one is
open. A barrier ends once for all: everybody came, or it failed; who comes to one that
has failed hears so at once, and is in step again with its next call.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gangstart.core import fold, fold_ranks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    #: Who is to be told, and what.
    News = list[tuple[list[int], "Outcome"]]

# What fits a frame of run/link.py, whatever the names are.
NODES_NAMED = 12
RANGES_MAX = 80
TEXT_MAX = 700
PART_MAX = 200
NOTICE = 0  # instead of a barrier's number: from now on every one will fail so


@dataclass(frozen=True)
class Outcome:
    """How a barrier ended; times in seconds by rank 0's clock.

    ``kind``: passed, timeout, gone, mismatch or double. ``ranks`` are those that it
    failed for, as ranges; ``count`` how many they are.
    """

    number: int
    kind: str
    text: str = ""
    ranks: tuple[tuple[int, int], ...] = ()
    count: int = 0
    nodes: Mapping[str, str] = field(default_factory=dict)
    skew_s: float = 0.0
    last_rank: int = 0
    last_node: str = ""


def ranges(ranks: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Ranks in order as (first, last)."""
    found: list[tuple[int, int]] = []
    for rank in sorted(ranks):
        if found and found[-1][1] == rank - 1:
            found[-1] = (found[-1][0], rank)
        else:
            found.append((rank, rank))
    return tuple(found)


def named(ranks: Iterable[int], nodes: Mapping[int, str]) -> str:
    """Say who: "rank 3 on n2", "ranks 4-7 on n[2-3]"; unknown nodes are left out."""
    found = sorted(ranks)
    places = [nodes[rank] for rank in found if rank in nodes]
    where = f" on {fold(places)}" if places and len(places) == len(found) else ""
    text = f"rank{'s' * (len(found) > 1)} {fold_ranks(found)}{where}"
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"


class Gather:
    """All barriers of a world; ``nodes`` is filled in as ranks are heard."""

    def __init__(self, world: int, nodes: Mapping[int, str]) -> None:
        """Nobody has come yet."""
        self.world = world
        self.nodes = dict(nodes)
        self.closed = 0  # number of the last barrier that ended
        self._gone: set[int] = set()
        self._open = 0
        self._names: dict[int, str] = {}
        self._came: dict[int, float] = {}
        self._late: Outcome | None = None  # the last failure

    def arrive(self, rank: int, number: int, name: str, now: float) -> News:
        """Take an arrival; now: seconds of any clock."""
        news: News = []
        if self._came and number > self._open:
            # It had given up on the open one before rank 0 could hear of it.
            news = self.withdraw(rank, self._open, "its time was over before")
        if number <= self.closed or (self._came and number < self._open):
            return [([rank], self._too_late(rank, number))]
        self._open = number
        self._came[rank] = now
        self._names[rank] = name
        return news + self._look()

    def withdraw(self, rank: int, number: int, why: str) -> News:
        """A rank gives up waiting: the barrier has failed for all."""
        if number != self._open or not self._came:
            return []
        absent = set(range(self.world)) - set(self._came)
        who = named(absent, self.nodes)
        how = f"{named([rank], self.nodes)} gave up: {why}"
        text = f"{who} did not come ({how})" if absent else how
        return self._fail("timeout", text, absent)

    def gone(self, rank: int, linked: Iterable[int] = ()) -> News:
        """A rank's connection has closed: it will never come again.

        The first one is told to all linked ranks, in a barrier or not, as number 0:
        rank 0 may have ended before they come to the barrier that fails for it. Rank 0
        itself is left out, and hears of it where it waits, after the others.
        """
        first = not self._gone
        self._gone.add(rank)
        self._came.pop(rank, None)
        self._names.pop(rank, None)
        others = sorted(set(linked) - {0, rank}) if first else []
        said = self._failure(NOTICE, "gone", self._ended(), self._gone)
        return [(others, said)] * bool(others) + (self._look() if self._came else [])

    def _ended(self) -> str:
        who = named(self._gone, self.nodes)
        return f"{who} {'has' if len(self._gone) == 1 else 'have'} ended"

    def _look(self) -> News:
        if self._gone:
            return self._fail("gone", self._ended(), self._gone)
        calls = set(self._names.values())
        if len(calls) > 1:
            return self._mismatch()
        if len(self._came) < self.world:
            return []
        last = max(self._came, key=lambda rank: self._came[rank])
        skew = self._came[last] - min(self._came.values())
        outcome = Outcome(
            self._open, "passed", skew_s=skew, last_rank=last,
            last_node=self.nodes.get(last, ""),
        )  # fmt: skip
        return self._close(outcome)

    def _mismatch(self) -> News:
        by_name: dict[str, list[int]] = {}
        for rank, name in self._names.items():
            by_name.setdefault(name, []).append(rank)
        few = sorted(by_name.items(), key=lambda row: (len(row[1]), row[0]))
        said = "; ".join(
            f"{named(ranks, self.nodes)[:PART_MAX]} in {name!r}"
            for name, ranks in few[:3]
        )
        text = f"the ranks are in different calls: {said}"
        return self._fail("mismatch", text, few[0][1])

    def _fail(self, kind: str, text: str, ranks: Iterable[int]) -> News:
        self._late = self._failure(self._open, kind, text, ranks)
        return self._close(self._late)

    def _failure(
        self, number: int, kind: str, text: str, ranks: Iterable[int]
    ) -> Outcome:
        found = sorted(ranks)
        nodes = {
            str(rank): self.nodes[rank]
            for rank in found[:NODES_NAMED]
            if rank in self.nodes
        }
        spans = ranges(found)[:RANGES_MAX]
        return Outcome(number, kind, text, spans, len(found), nodes)

    def _close(self, outcome: Outcome) -> News:
        # Rank 0 last: once it knows, its process may end.
        told = sorted(self._came, reverse=True)
        self.closed = self._open
        self._came, self._names = {}, {}
        return [(told, outcome)]

    def _too_late(self, rank: int, number: int) -> Outcome:
        """What a rank hears that comes to a barrier which is over."""
        late = self._late
        if late is not None and late.number == number:
            return replace(late, text=f"it is over already: {late.text}")
        text = f"it is over already: {named([rank], self.nodes)} came too late"
        return Outcome(number, "timeout", text, ((rank, rank),), 1)
