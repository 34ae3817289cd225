"""What was counted of each node while jobs are read, newest first. Bounded per node."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from gangstart.history.model import JOBS_MOST
from gangstart.history.start import is_of_jobs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gangstart.history.start import Hit, Start
    from gangstart.history.vote import LateVote, RefusalVote

CHECKS_MOST = 256  # of one node


class Event(NamedTuple):
    """A job in which something happened to the node."""

    at: float
    step: str
    user: int
    value: float  # seconds late, or 1
    reason: str


@dataclass
class Votes:
    """Votes of jobs on one question about one node; the same place is the same job."""

    at: array[float] = field(default_factory=lambda: array("d"))
    chances: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))
    events: list[Event] = field(default_factory=list)

    def add(
        self, start: Start, chance: float, value: float, *, hit: bool, reason: str = ""
    ) -> None:
        """Count a job, unless enough newer ones were counted."""
        if len(self.at) >= JOBS_MOST:
            return
        self.at.append(start.at)
        self.chances.append(chance)
        self.values.append(value)
        if hit:
            self.events.append(Event(start.at, start.step, start.user, value, reason))

    def since(self) -> int:
        """The newest jobs in a row in which it did not happen."""
        newest = max((one.at for one in self.events), default=float("-inf"))
        return sum(at > newest for at in self.at)


@dataclass
class Found:
    """What one check found on a node."""

    verdict: str
    reason: str
    first_at: float
    last_at: float
    last_job: int
    of_jobs: bool
    jobs: int = 0


@dataclass
class Tally:
    """One node."""

    jobs: int = 0
    last_at: float | None = None
    late: Votes = field(default_factory=Votes)
    refused: Votes = field(default_factory=Votes)
    looks: array[float] = field(default_factory=lambda: array("d"))
    found: dict[str, Found] = field(default_factory=dict)

    def see(self, at: float) -> None:
        """Count a job that it was in."""
        self.jobs += 1
        self.last_at = at if self.last_at is None else max(self.last_at, at)

    def look(self, job: int, at: float, hits: Iterable[Hit]) -> None:
        """Count what was found on it in one job, each check once."""
        self.looks.append(at)
        worst: dict[str, Hit] = {}
        for hit in hits:
            if hit.check not in worst or hit.verdict == "fail":
                worst[hit.check] = hit
        for check, hit in worst.items():
            if check in self.found or len(self.found) < CHECKS_MOST:
                self.count(check, hit, job, at)

    def count(self, check: str, hit: Hit, job: int, at: float) -> None:
        """Count one finding."""
        known = self.found.setdefault(
            check, Found(hit.verdict, hit.reason, at, at, job, is_of_jobs(check))
        )
        known.jobs += 1
        if hit.verdict == "fail":
            known.verdict = "fail"
        known.first_at = min(known.first_at, at)
        if at > known.last_at:
            known.last_at, known.last_job, known.reason = at, job, hit.reason


def count_late(tallies: Mapping[str, Tally], vote: LateVote, late_s: float) -> int:
    """Count a job's vote on lateness; how many nodes were late."""
    late = {name for name, by in vote.by_s.items() if by >= late_s}
    chance = len(late) / len(vote.by_s)
    for name, by in vote.by_s.items():
        tallies[name].late.add(vote.start, chance, by, hit=name in late)
    return len(late)


def count_refusal(tallies: Mapping[str, Tally], vote: RefusalVote) -> int:
    """Count a job's vote on refusals; how many nodes it was because of."""
    chance = len(vote.blamed) / vote.nodes
    for name in vote.among | vote.blamed:
        hit = name in vote.blamed
        tallies[name].refused.add(
            vote.start, chance, float(hit), hit=hit, reason=vote.start.reason
        )
    return len(vote.blamed)
