"""What gangstart itself left of a job: start reports, events of checks.

One reader for triage, report, history and the agents. It looks where the reports are
(`report_find`) and only into what root wrote: of a step ``sys/start.json``, of a job
``sys/events.jsonl``, never ``user/``. What is broken is told and passed over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gangstart import report, report_find
from gangstart.check.record import read_events
from gangstart.errors import GangstartError
from gangstart.triage.model import Outcome, SourceState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from gangstart.report_find import Places

REPORTS_MOST = 256  # of one job: the newest
EVENTS_MOST = 10_000
NODES_MOST = 65_536
SKEW_S = 600.0  # between srun's clock and slurmctld's
Span = tuple["float | None", "float | None"]
EVENTS_FILE = "events.jsonl"


@dataclass(frozen=True)
class StartReport:
    """A start report that was found; `told` is checked by `report.parse`."""

    path: Path
    job: int
    step: int
    told: Mapping[str, Any]

    @property
    def complete(self) -> bool:
        """Whether it lists every node."""
        return self.told.get("complete") is True

    @property
    def decided(self) -> float:
        """When it was decided, in seconds since 1970; 0 is not known."""
        return float(self.told["decided_at"] or 0.0)

    @property
    def cluster(self) -> str:
        """Where the job ran, "" if it is not told."""
        return str(self.told["step"].get("cluster") or "")

    @property
    def attempt(self) -> int:
        """How often the job had been requeued before."""
        found = self.told["step"].get("restart_count")
        return found if isinstance(found, int) else 0


@dataclass(frozen=True)
class CheckEvent:
    """One line of a job's own records on a node."""

    path: Path
    line: int
    node: str
    told: Mapping[str, Any]


@dataclass
class Kept:
    """Everything of one job, and what could not be read."""

    reports: list[StartReport] = field(default_factory=list)
    events: list[CheckEvent] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    remark: str = ""


def read(
    job: int, places: Places, own_node: str = "", span: Span = (None, None)
) -> tuple[Kept, SourceState]:
    """Reports and events of a job, each step's and run's newest; never raises.

    `own_node` is this machine's name in Slurm: its spool keeps events without one.
    `span` is from when to when the job was there, as far as that is known.
    """
    kept = Kept()
    wanted = report_find.Wanted(job, None)
    found = list(report_find.candidates(wanted, places))
    found.sort(key=lambda one: one.modified, reverse=True)
    for one in found[:REPORTS_MOST]:
        add_report(kept, one)
    kept.reports = newest(kept.reports)
    keep_own(kept, places, span)
    for path, node in event_files(job, places, own_node):
        for line, told in enumerate(read_events(path), 1):
            if len(kept.events) < EVENTS_MOST:
                kept.events.append(CheckEvent(path, line, node, told))
    return kept, state(kept, places)


def keep_own(kept: Kept, places: Places, span: Span) -> None:
    """Leave out reports of other jobs that have the same number.

    Other clusters count their jobs too, and a user's own copies are of all of them. A
    report from before or after the job is of another one. Archive and spool are those
    of one cluster; without a report there, own copies of several decide nothing.
    """
    begin, end = span
    all_of = kept.reports
    fit = [
        one
        for one in all_of
        if not one.decided
        or (begin or 0.0) - SKEW_S <= one.decided <= (end or one.decided) + SKEW_S
    ]
    clusters = {one.cluster for one in fit}
    if len(clusters) > 1:
        near = {one.cluster for one in fit if not own_copy(one.path, places)}
        clusters = near if len(near) == 1 else set()
        fit = [one for one in fit if one.cluster in clusters]
    kept.reports = fit
    if len(fit) < len(all_of):
        others = sorted({one.cluster for one in all_of} - clusters)
        named = (
            f" on {', '.join(others[:4])} (--cluster NAME chooses)" if others else ""
        )
        left = len(all_of) - len(fit)
        kept.remark = f"{left} left out: of other jobs of this number{named}"


def own_copy(path: Path, places: Places) -> bool:
    """Whether a report is a copy that srun wrote for its user."""
    return any(path.is_relative_to(state) for state in places.states)


def add_report(kept: Kept, one: report_find.Found) -> None:
    """Read one report, or remember why not."""
    try:
        told = report.parse(report_find.read(one.path), one.path)
    except GangstartError as error:
        kept.broken.append(error.message.removeprefix("report: "))
        return
    kept.reports.append(StartReport(one.path, one.job, one.step, told))


def newest(reports: Sequence[StartReport]) -> list[StartReport]:
    """Of each step and run the fullest copy, in the order of their starts."""
    best: dict[tuple[float, int, str], StartReport] = {}
    for one in reports:
        key = (one.decided, one.step, one.cluster)
        if key not in best or (one.complete and not best[key].complete):
            best[key] = one
    return [best[key] for key in sorted(best)]


def event_files(job: int, places: Places, own_node: str) -> Iterator[tuple[Path, str]]:
    """Files of a job's own records, and the node of each."""
    name = f"{job}.node"
    if places.archive:
        for folder in places.entries(places.archive / name)[:NODES_MOST]:
            path = folder / "sys" / EVENTS_FILE
            if report_find.modified_at(path) is not None:
                yield path, folder.name
    path = places.spool / name / "sys" / EVENTS_FILE
    if report_find.modified_at(path) is not None:
        yield path, own_node


def state(kept: Kept, places: Places) -> SourceState:
    """Say what was found."""
    broken = f", not readable: {'; '.join(kept.broken[:3])}" if kept.broken else ""
    if kept.remark:
        broken = f"; {kept.remark}{broken}"
    if kept.reports or kept.events:
        told = f"{len(kept.reports)} start reports, {len(kept.events)} events of checks"
        return SourceState("archive", Outcome.USED, told + broken)
    if kept.broken:
        return SourceState("archive", Outcome.UNREACHABLE, broken.lstrip(";, "))
    return SourceState("archive", Outcome.EMPTY, f"nothing in {places}{broken}")
