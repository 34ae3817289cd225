"""Counting the jobs of a fleet, one after the other. Nothing is read here."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gangstart.history.findings import hits_of
from gangstart.history.start import NAME
from gangstart.history.tally import Tally, count_late, count_refusal
from gangstart.history.vote import late_vote, refusal_vote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gangstart.history.source import Check, JobFiles
    from gangstart.history.start import Hit, Start

TIME_MOST = 1e11  # seconds since 1970


@dataclass(frozen=True)
class Window:
    """The time that is asked about."""

    since: float | None
    until: float | None

    def has(self, at: float) -> bool:
        """Whether a moment is in it."""
        return (self.since is None or at >= self.since) and (
            self.until is None or at < self.until
        )


@dataclass
class Sums:
    """Everything that was counted."""

    tallies: defaultdict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    cluster: str = ""
    jobs: int = 0
    starts: int = 0
    refused: int = 0
    not_compared: int = 0
    copies: int = 0
    left_out: int = 0
    checks: int = 0
    others: int = 0
    late: int = 0
    late_votes: int = 0
    caused: int = 0
    refusal_votes: int = 0
    oldest: float | None = None
    newest: float | None = None

    def span(self, at: float) -> None:
        """Widen the time that was looked at."""
        self.oldest = at if self.oldest is None else min(self.oldest, at)
        self.newest = at if self.newest is None else max(self.newest, at)


def count(sums: Sums, files: JobFiles, window: Window, late_s: float) -> None:
    """Count one job."""
    starts = [one for one in files.starts if window.has(one.at)]
    if not sums.cluster and starts:
        sums.cluster = starts[0].cluster
    mine = [one for one in starts if one.cluster == sums.cluster]
    sums.others += len(starts) - len(mine)
    sums.copies += files.copies
    sums.left_out += files.left_out
    checks = [one for one in files.checks if is_fit(one, window)]
    sums.checks += len(checks)
    if not mine and not checks:
        return
    sums.jobs += 1
    seen = count_presence(sums, mine, checks)
    count_votes(sums, mine, late_s)
    count_looks(sums, mine, checks, seen)


def is_fit(check: Check, window: Window) -> bool:
    """Whether an event has a node and a moment that can be, inside of the window."""
    at = check.told.get("time")
    if (
        not isinstance(at, (int, float))
        or isinstance(at, bool)
        or not 0 < at < TIME_MOST
    ):
        return False
    return bool(NAME.fullmatch(check.node)) and window.has(at)


def count_presence(
    sums: Sums, starts: Sequence[Start], checks: Sequence[Check]
) -> dict[str, float]:
    """Count which nodes the job was on; when each was last seen in it."""
    seen: dict[str, float] = {}
    for one in starts:
        sums.starts += 1
        sums.refused += one.outcome == "refused"
        sums.span(one.at)
        for name in (*one.rows, *one.blamed):
            seen[name] = max(seen.get(name, one.at), one.at)
    for check in checks:
        at = float(check.told["time"])
        sums.span(at)
        seen[check.node] = max(seen.get(check.node, at), at)
    for name, at in seen.items():
        sums.tallies[name].see(at)
    return seen


def count_votes(sums: Sums, starts: Sequence[Start], late_s: float) -> None:
    """Count the job's votes."""
    late, refusal = late_vote(starts), refusal_vote(starts)
    if late:
        sums.late += count_late(sums.tallies, late, late_s)
        sums.late_votes += len(late.by_s)
    elif any(one.outcome == "released" for one in starts):
        sums.not_compared += 1
    if refusal:
        sums.caused += count_refusal(sums.tallies, refusal)
        sums.refusal_votes += len(refusal.among | refusal.blamed)


def count_looks(
    sums: Sums,
    starts: Sequence[Start],
    checks: Sequence[Check],
    seen: Mapping[str, float],
) -> None:
    """Count what was found on each node in this job, each check once."""
    found: defaultdict[str, list[Hit]] = defaultdict(list)
    for name, hits in looks_of(starts, checks):
        found[name] += hits
    job = next((one.job for one in starts), None)
    for name, hits in found.items():
        number = job if job is not None else job_of(checks)
        sums.tallies[name].look(number, seen[name], hits)


def looks_of(
    starts: Sequence[Start], checks: Sequence[Check]
) -> Iterator[tuple[str, Sequence[Hit]]]:
    """Every look at a node."""
    for one in starts:
        yield from one.looks.items()
    for check in checks:
        hits = hits_of(check.told)
        if hits is not None:
            yield check.node, hits


def job_of(checks: Sequence[Check]) -> int:
    """Return the job that events are of."""
    numbers = (one.told.get("job") for one in checks)
    return next((n for n in numbers if isinstance(n, int)), 0)
