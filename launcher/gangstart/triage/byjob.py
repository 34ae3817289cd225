"""Everything about one job of Slurm, joined within one deadline.

Slurm and the archive are asked first and at the same time; they say which nodes,
files and times count, and then Prometheus is asked while the logs are read. Each source
runs in a thread of its own: one that hangs is left behind and told.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from gangstart.errors import GangstartError
from gangstart.triage import offline, startreport
from gangstart.triage.attribute import attribute
from gangstart.triage.judge import judge
from gangstart.triage.model import Outcome, SourceState, Trace
from gangstart.triage.source import (
    archive,
    ask,
    bounded,
    bypyslurm,
    checks,
    prometheus,
    standing,
)
from gangstart.triage.source.commands import Commands
from gangstart.triage.source.joined import FINE, LIVE
from gangstart.triage.source.peek import Peeker, PeekError
from gangstart.triage.source.record import parse_wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from gangstart.report_find import Places
    from gangstart.triage.cause import Facts
    from gangstart.triage.model import Job, Series, Verdict
    from gangstart.triage.source.archive import StartReport
    from gangstart.triage.source.jobfiles import JobFile
    from gangstart.triage.source.promhttp import Server
    from gangstart.triage.source.record import Slurm

T = TypeVar("T")
DEADLINE_S = 20.0
#: Parts of the deadline: one command of Slurm, and all that Slurm is asked.
ONE_COMMAND, SLURM = 0.3, 0.6
GRACE_S = 0.5  # after the deadline, for a reader to notice it


@dataclass(frozen=True)
class Asked:
    """What a user typed."""

    text: str  # JOB, JOB_TASK, JOB+COMPONENT, each with or without .STEP
    places: Places
    logs: tuple[Path, ...] = ()
    kernel: tuple[tuple[str, Path], ...] = ()
    server: Server | None = None
    deadline_s: float = DEADLINE_S
    begun: float = field(default_factory=time.monotonic)

    @property
    def end(self) -> float:
        """When the answer is due, on the monotonic clock."""
        return self.begun + self.deadline_s

    @property
    def number(self) -> int:
        """Its number: of an array or a heterogeneous job the first one."""
        return parse_wanted(self.text).number

    @property
    def step(self) -> int | None:
        """Number of the step that was named."""
        step = self.text.partition(".")[2]
        return int(step) if step.isdecimal() else None


class Work(Generic[T]):
    """Something that runs beside this thread, and that may never end."""

    def __init__(self, work: Callable[[], T]) -> None:
        """Begin."""
        self._work = work
        self.found: T | None = None
        self.error: GangstartError | OSError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.found = self._work()
        except (GangstartError, OSError) as error:
            self.error = error

    def by(self, end: float) -> T | None:
        """Give the result; None if it is not there at that time.

        Raises:
            GangstartError, OSError: what the work raised.

        """
        self._thread.join(max(end - time.monotonic(), 0.0))
        if self.error is not None:
            raise self.error
        return self.found


@dataclass
class Thrifty:
    """Runs Slurm's commands until a time; one that hung is not started again."""

    end: float
    hung: set[str] = field(default_factory=set)

    def __call__(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        env: Mapping[str, str],
        limit: int = bounded.OUTPUT_BYTES,
    ) -> bounded.Ran:
        """Run one."""
        name = Path(argv[0]).name
        left = min(deadline_s, self.end - time.monotonic())
        if name in self.hung:
            return bounded.Ran(None, why="it did not answer when it was asked before")
        if left <= 0:
            return bounded.Ran(None, why="no time was left for it (--deadline)")
        ran = bounded.run(argv, deadline_s=round(left, 1) or left, env=env, limit=limit)
        if ran.why.startswith("it did not answer"):
            self.hung.add(name)
        return ran


def here(asked: Asked) -> tuple[Slurm, str]:
    """The way to ask this machine's Slurm within a part of the deadline."""
    run = Thrifty(asked.begun + SLURM * asked.deadline_s)
    return bypyslurm.choose(Commands(run, ONE_COMMAND * asked.deadline_s))


def files(asked: Asked) -> tuple[ask.Told, list[JobFile], SourceState]:
    """What this machine's Slurm says of a job, and the files that it wrote.

    Raises:
        GangstartError: the text is no job.

    """
    parse_wanted(asked.text)
    by, _ = here(asked)
    return _first(asked, by)


def no_bar(_: int) -> AbstractContextManager[Callable[[int], None]]:
    """Show no progress."""
    return contextlib.nullcontext(lambda _: None)


def verdict(
    asked: Asked,
    bar: Callable[[int], AbstractContextManager[Callable[[int], None]]] = no_bar,
) -> Verdict:
    """Ask everybody about a job, and judge.

    Raises:
        GangstartError: the text is no job, or nobody knows of the job.

    """
    parse_wanted(asked.text)
    by, remark = here(asked)
    facts = gather(asked, by, bar)
    if remark:
        facts.trace.sources.append(SourceState("pyslurm", Outcome.ABSENT, remark))
    return judge(facts)


def gather(
    asked: Asked,
    by: Slurm,
    bar: Callable[[int], AbstractContextManager[Callable[[int], None]]] = no_bar,
) -> Facts:
    """Ask every source, and read what they name.

    Raises:
        GangstartError: the text is no job, or nobody knows of the job.

    """
    end = asked.end
    wanted = parse_wanted(asked.text)
    told, found, files = _first(asked, by)
    job = told.job or offline.empty(str(wanted)).job
    trace = Trace(job, nodes=told.nodes, history=told.past)
    trace.sources += told.states
    kept, state = _archive(asked, told, end)
    trace.sources.append(state)
    trace.sources.append(files)
    if told.remark:
        trace.sources.append(SourceState("runs", Outcome.USED, told.remark))
    report = chosen(kept.reports, job, asked.step)
    trace.events, trace.gpu_uses = checks.events(kept.events, _begun(job))
    if report is not None:
        trace.layout = startreport.layout(report.told)
        trace.events += startreport.health(report.told, report.path)
    _known(asked, told, kept.reports, trace)
    metrics = _metrics(asked, trace, end)
    before = _standings(asked, trace, end)
    uid = told.records[0].uid if told.records else None
    total = sum(one.file.size for one in found)
    with bar(total + sum(path.stat().st_size for path in asked.logs)) as seen:
        facts = _read(trace, asked, _opened(trace, found, uid, end), seen)
    if metrics is not None:
        series, state = metrics.by(end + GRACE_S) or ([], _late("prometheus", asked))
        facts.trace.series += series
        facts.trace.sources.append(state)
    if before is not None:
        held, state = before.by(end + GRACE_S) or ({}, _late(standing.NAME, asked))
        facts.trace.standings = held
        facts.trace.sources.append(state)
    return facts


def _standings(
    asked: Asked, trace: Trace, end: float
) -> Work[tuple[standing.Standings, SourceState]] | None:
    """Begin to read how the nodes did before; None if no node is known."""
    nodes = {*trace.job.nodes, *trace.layout.rank_node.values()}
    if not nodes:
        return None
    left = max(end - time.monotonic(), GRACE_S)
    begun = _begun(trace.job)
    return Work(lambda: standing.ask(asked.places, nodes, begun, left))


def _begun(job: Job) -> float | None:
    """When the last run began."""
    return job.attempts[-1].start if job.attempts else None


def _late(name: str, asked: Asked) -> SourceState:
    why = f"no answer within {asked.deadline_s:g} s"
    return SourceState(name, Outcome.UNREACHABLE, why, asked.deadline_s)


def _first(asked: Asked, by: Slurm) -> tuple[ask.Told, list[JobFile], SourceState]:
    """What Slurm says, and the files that it names."""
    end = asked.begun + (SLURM + 0.1) * asked.deadline_s
    told = Work(lambda: ask.slurm(by, parse_wanted(asked.text))).by(end)
    if told is None:
        lost = SourceState("job files", Outcome.ABSENT, "Slurm named none")
        return ask.Told(states=[_late("slurm", asked)]), [], lost
    end = asked.begun + 0.9 * asked.deadline_s
    files, state = Work(lambda: ask.files(told, by)).by(end) or (
        [],
        _late("job files", asked),
    )
    return told, files, state


def _archive(
    asked: Asked, told: ask.Told, end: float
) -> tuple[archive.Kept, SourceState]:
    """Start reports and events that gangstart itself has of the job."""
    number = told.records[0].number if told.records else asked.number
    work = Work(lambda: archive.read(number, asked.places))
    return work.by(end) or (archive.Kept(), _late("archive", asked))


def _known(
    asked: Asked, told: ask.Told, reports: Sequence[StartReport], trace: Trace
) -> None:
    """Refuse a job that nobody knows of, unless a source could not be asked."""
    if told.job or reports or asked.logs or asked.kernel:
        return
    if any(one.outcome is Outcome.UNREACHABLE for one in trace.sources):
        return
    said = "; ".join(
        f"{one.name}: {one.detail}"
        for one in trace.sources
        if one.outcome is Outcome.EMPTY
    )
    raise GangstartError(
        f"triage: nobody knows of a job {asked.text} ({said}): check the number with "
        "sacct -X, or name its files with --log PATH"
    )


def chosen(
    reports: Sequence[StartReport], job: Job, step: int | None
) -> StartReport | None:
    """The report of the step that was named, else of one that failed, else the last.

    Only of the last run of the job: where ranks ran before a requeue accuses others.
    """
    run = job.attempts[-1] if job.attempts else None
    fit = [one for one in reports if run is None or one.attempt == run.restart]
    fit = [one for one in fit if step is None or one.step == step]
    steps = run.steps if run else ()
    bad = {one.name for one in steps if one.state not in FINE | LIVE}
    worst = [one for one in fit if str(one.step) in bad]
    found = worst or fit
    return found[-1] if found else None


def _metrics(
    asked: Asked, trace: Trace, end: float
) -> Work[tuple[list[Series], SourceState]] | None:
    """Begin to ask Prometheus; None if there is none or no node to ask for."""
    if asked.server is None:
        why = "none is named (--prometheus URL or GANGSTART_PROMETHEUS)"
        trace.sources.append(SourceState("prometheus", Outcome.ABSENT, why))
        return None
    names = (*trace.job.nodes, *trace.layout.rank_node.values())
    aliases = {name: name for name in names}
    aliases |= trace.layout.address_node
    if not aliases:
        why = "the job's nodes are not known"
        trace.sources.append(SourceState("prometheus", Outcome.ABSENT, why))
        return None
    run = trace.job.attempts[-1] if trace.job.attempts else None
    now = time.time()
    span = prometheus.window(run.start if run else None, run.end if run else None, now)
    left = max(end - time.monotonic(), GRACE_S)
    server = prometheus.Prometheus(asked.server, left)
    return Work(lambda: server.series(aliases, span))


def _opened(
    trace: Trace, files: Sequence[JobFile], uid: int | None, end: float
) -> Generator[offline.LogFile]:
    """The job's files one after the other, opened as its user."""
    if not files or uid is None:
        return
    try:
        with Peeker(uid, max(end - time.monotonic(), GRACE_S)) as eyes:
            for one in files:
                yield from _one(trace, eyes, one)
    except PeekError as error:
        state = SourceState("job files", Outcome.UNREACHABLE, str(error))
        trace.sources.append(state)


def _one(trace: Trace, eyes: Peeker, one: JobFile) -> Iterator[offline.LogFile]:
    try:
        fd = eyes.open(one.file.path)
    except PeekError as error:
        trace.sources.append(SourceState("logs", Outcome.UNREACHABLE, str(error)))
        return
    try:
        # What was opened as the user is what is read: the name is not followed again.
        path = Path(f"/proc/self/fd/{fd}")
        yield offline.LogFile(path, one.file.path, one.file.rank, one.file.node or None)
    finally:
        os.close(fd)


def _read(
    trace: Trace,
    asked: Asked,
    files: Generator[offline.LogFile],
    seen: Callable[[int], None],
) -> Facts:
    """Read all logs until the deadline."""

    def bounded_seen(now: int) -> None:
        seen(now)
        if time.monotonic() > asked.end:
            raise offline.EnoughError

    # The reader aligns events in place: what is left behind keeps its own.
    mine = replace(trace, sources=[], events=[replace(e) for e in trace.events])

    def work() -> Facts:
        with contextlib.closing(files):
            logs = offline.chained(files, asked.logs)
            return offline.read_all(mine, logs, asked.kernel, bounded_seen)

    facts = Work(work).by(asked.end + GRACE_S)
    if facts is None:
        untouched = replace(trace, series=[])
        trace.sources.append(_late("logs", asked))
        return attribute(untouched, [])
    facts.trace.sources[:0] = trace.sources
    return facts
