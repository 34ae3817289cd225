"""From files to a History: read job by job, count, judge."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gangstart.history import judge
from gangstart.history.counting import Sums, Window, count
from gangstart.history.model import LATE_S, History, Reading
from gangstart.history.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from gangstart.report_find import Places

NODES_MOST = 131_072  # as many as a node list of the core may name


@dataclass(frozen=True)
class Options:
    """What is seldom said otherwise."""

    late_s: float = LATE_S
    own_node: str = ""  # this machine's name in Slurm
    progress: Callable[[int, int], None] | None = None  # told of jobs read, of how many


USUAL = Options()


def collect(
    places: Places,
    nodes: Collection[str] | None = None,
    *,
    since: float | None = None,
    until: float | None = None,
    deadline_s: float | None = None,
    options: Options = USUAL,
) -> History:
    """Read and judge; never raises for what the files hold.

    `places`: see ``report_find.places``. `nodes`: only these are in the answer; they
    are judged as if all had been asked for. `since`, `until`: seconds since 1970, of a
    start's decision or a check. `deadline_s`: after so many seconds the rest is left
    out, which the answer says; the newest jobs are read first.
    """
    end = None if deadline_s is None else time.monotonic() + deadline_s
    source = Source(places, options.own_node, since)
    window = Window(since, until)
    index = source.index()
    sums = Sums(cluster=places.cluster or source.cluster(index))
    note = ""
    for done, entries in enumerate(index.values()):
        if over := stop(end, deadline_s, sums):
            note = f"{over}: {done} of {len(index)} jobs were read, the newest"
            break
        count(sums, source.read(entries), window, options.late_s)
        if options.progress:
            options.progress(done + 1, len(index))
    reading = told(source, sums, note)
    usual = rates(sums, options.late_s)
    return judge.history(sums.tallies, nodes, window, reading, usual)


def stop(end: float | None, deadline_s: float | None, sums: Sums) -> str:
    """Why reading ends before everything was read; "" if it goes on."""
    if end is not None and time.monotonic() >= end:
        return f"{deadline_s:g} s were over"
    if len(sums.tallies) >= NODES_MOST:
        return f"{len(sums.tallies)} nodes were named, more than there can be"
    return ""


def rates(sums: Sums, late_s: float) -> judge.Rates:
    """What is usual in the whole fleet."""
    return judge.Rates(
        late=sums.late / sums.late_votes if sums.late_votes else 0.0,
        refused=sums.caused / sums.refusal_votes if sums.refusal_votes else 0.0,
        late_s=late_s,
    )


def told(source: Source, sums: Sums, note: str) -> Reading:
    """Say what was read and what was not."""
    unreadable = source.denied()
    return Reading(
        places=str(source.places).partition(" (not readable: ")[0],
        cluster=sums.cluster,
        jobs=sums.jobs,
        starts=sums.starts,
        refused=sums.refused,
        not_compared=sums.not_compared,
        copies=sums.copies,
        left_out=sums.left_out,
        checks=sums.checks,
        other_clusters=sums.others,
        broken=source.trouble.broken,
        unreadable=unreadable,
        examples=tuple(source.trouble.examples),
        oldest=sums.oldest,
        newest=sums.newest,
        complete=not note,
        note=note,
    )
