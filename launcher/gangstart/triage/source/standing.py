"""How a job's nodes did in earlier jobs: ``gangstart history`` as a source of triage.

It supports a conclusion and proves none: a node that is late or refused more often than
chance would do need not be what ended this job. The job itself is not counted.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gangstart.triage.model import Outcome, SourceState

if TYPE_CHECKING:
    from collections.abc import Collection

    from gangstart.history import History
    from gangstart.report_find import Places

    Standings = dict[str, tuple[str, ...]]

#: Older starts say little about how a node is now.
DAYS = 14.0
DAY_S = 86_400.0
NAME = "history"
#: Verdicts of a node's history that hold something against it.
AGAINST = ("fail", "warn")


def ask(
    places: Places, nodes: Collection[str], before: float | None, deadline_s: float
) -> tuple[Standings, SourceState]:
    """Sentences about the nodes that history accuses, until the job began."""
    from gangstart import history  # noqa: PLC0415 - slow to import

    begun = time.monotonic()
    until = before if before is not None else time.time()
    told = history.collect(
        places,
        frozenset(nodes),
        since=until - DAYS * DAY_S,
        until=until,
        deadline_s=deadline_s,
    )
    return standings(told), state(told, time.monotonic() - begun)


def standings(told: History) -> Standings:
    """What is held against each node that something is held against."""
    return {
        node.name: node.sentences
        for node in told.nodes
        if node.verdict in AGAINST and node.sentences
    }


def state(told: History, took_s: float) -> SourceState:
    """Say what was read."""
    read = told.reading
    jobs = f"{read.jobs} jobs of the {DAYS:.0f} days before"
    if read.jobs and any(node.jobs for node in told.nodes):
        note = f", not all: {read.note}" if read.note else ""
        return SourceState(NAME, Outcome.USED, jobs + note, took_s)
    if read.note or read.unreadable:
        why = read.note or f"{read.unreadable} files that must not be read"
        return SourceState(NAME, Outcome.UNREACHABLE, why, took_s)
    told_of = "none of them with these nodes" if read.jobs else "no start report"
    return SourceState(NAME, Outcome.EMPTY, f"{jobs}: {told_of}", took_s)
