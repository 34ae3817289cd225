"""Facts of a job out of files alone: logs, kernel logs, a start report."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from gangstart import report
from gangstart.errors import GangstartError
from gangstart.triage import startreport
from gangstart.triage.attribute import attribute
from gangstart.triage.gather import Log, Reading, node_of_file, rank_of_file
from gangstart.triage.model import Job, Outcome, SourceState, Trace
from gangstart.triage.reader import blocks
from gangstart.triage.source import joined, slurmjson
from gangstart.triage.source.record import GarbageError, parse_wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from gangstart.triage.cause import Facts

#: What a folder given as a log may hold; further files are not logs.
SUFFIXES = (".out", ".err", ".log", ".txt", ".json", ".gz", ".zst")
MOST_FILES = 10_000


class EnoughError(Exception):
    """Raised by who hears of the progress: read no further."""


class LogFile(NamedTuple):
    """A log to read, and what is known of it beside its name."""

    path: Path  # to open
    name: str  # to show
    rank: int | None = None
    node: str | None = None


def chained(files: Iterable[LogFile], paths: Iterable[Path]) -> Iterator[LogFile]:
    """The files, then the paths as they are named."""
    yield from files
    for path in paths:
        yield LogFile(path, str(path))


def log_files(paths: Iterable[Path]) -> list[Path]:
    """Files to read: a folder stands for the logs below it, oldest name first.

    Raises:
        GangstartError: a path does not exist, or a folder holds no log.

    """
    made: list[Path] = []
    for path in paths:
        if not path.exists():
            raise GangstartError(
                f"triage: there is no log {path}: give files or folders with --log",
                exit_code=2,
            )
        if path.is_dir():
            below = [p for p in sorted(path.rglob("*")) if _is_log(p)][:MOST_FILES]
            if not below:
                raise GangstartError(
                    f"triage: no log below {path}: files there end in none of "
                    f"{', '.join(SUFFIXES)}; name them with --log",
                    exit_code=2,
                )
            made += below
        else:
            made.append(path)
    return list(dict.fromkeys(made))


def _is_log(path: Path) -> bool:
    return path.is_file() and (
        path.suffix in SUFFIXES or path.suffix.lstrip(".").isdigit()
    )


def read_log(
    file: LogFile, reading: Reading, seen: Callable[[int], None] = lambda _: None
) -> tuple[Log, str]:
    """Read a log to its end; ``seen`` hears how many unpacked bytes were read.

    The text says why not all was read, "" if it was.
    """
    log, cut = Log(file.name, reading), ""
    try:
        for block in blocks(file.path):
            log.feed(block)
            seen(block.offset + len(block.data))
    except EnoughError:
        cut = ", not to its end: the time was up (--deadline)"
    log.finish()
    return log, cut


def read_report(path: Path, trace: Trace) -> None:
    """Take over who ran where from a start report.

    Raises:
        GangstartError: it is not one.

    """
    told = report.parse(path.read_bytes(), path)
    trace.layout = startreport.layout(told)
    trace.events += startreport.health(told, path)
    trace.sources.append(SourceState("start report", Outcome.USED, str(path)))


def read_accounting(path: Path, trace: Trace, job_id: str) -> None:
    """Take over what ``sacct --json`` said of the job (its only one without a number).

    Raises:
        GangstartError: it is not that, or knows nothing of the job.

    """
    try:
        records = slurmjson.accounting_jobs(slurmjson.parse(path.read_bytes()))
    except GarbageError as error:
        raise GangstartError(
            f"triage: {path} is not the output of sacct --json: {error}", exit_code=2
        ) from error
    numbers = sorted({one.array or one.number for one in records})
    if not job_id and len(numbers) != 1:
        raise GangstartError(
            f"triage: {path} has {len(numbers)} jobs: name the one to look at with "
            "--job JOB",
            exit_code=2,
        )
    wanted = parse_wanted(job_id or str(numbers[0]))
    meant = [one for one in records if wanted.means(one)]
    if not meant:
        raise GangstartError(f"triage: {path} has no job {wanted}", exit_code=2)
    runs, remark = joined.chosen(meant, wanted)
    trace.job = joined.job_of(runs, wanted)
    trace.sources.append(SourceState("sacct", Outcome.USED, remark or str(path)))


def read_all(
    trace: Trace,
    logs: Iterable[Path | LogFile],
    kernel: Sequence[tuple[str, Path]] = (),
    seen: Callable[[int], None] = lambda _: None,
) -> Facts:
    """Read logs and kernel logs into the trace.

    A log that cannot be read is reported as such, and the others still count.
    """
    attempts = trace.job.attempts
    near = (attempts[-1].start or attempts[-1].end) if attempts else None
    nodes = frozenset(trace.job.nodes) | frozenset(trace.layout.rank_node.values())
    made: list[Log] = []
    for given in logs:
        file = given if isinstance(given, LogFile) else LogFile(given, str(given))
        try:
            modified = file.path.stat().st_mtime
        except OSError as error:
            why = f"{file.name}: {error.strerror}"
            trace.sources.append(SourceState("logs", Outcome.UNREACHABLE, why))
            continue
        about = near if near is not None else modified
        node = file.node or node_of_file(file.name, nodes)
        rank = rank_of_file(file.name) if file.rank is None else file.rank
        _one(trace, made, file, Reading(nodes, about, node, rank), seen)
        trace.log_end = max(trace.log_end or 0.0, modified)
    for node, path in kernel:
        boot = _boot(trace, node)
        about = near if near is not None else path.stat().st_mtime
        reading = Reading(nodes, about, node, kernel=True, boot=boot)
        _one(trace, made, LogFile(path, str(path)), reading, seen)
    return attribute(trace, made)


def _boot(trace: Trace, node: str) -> float | None:
    """When a node booted, if that was before the job ended: else the log is older."""
    state = trace.nodes.get(node)
    boot = state.boot_time if state else None
    end = trace.job.attempts[-1].end if trace.job.attempts else None
    return None if boot is None or (end is not None and boot > end) else boot


def _one(
    trace: Trace,
    made: list[Log],
    file: LogFile,
    reading: Reading,
    seen: Callable[[int], None],
) -> None:
    name = f"kernel log of {reading.node}" if reading.kernel else "logs"
    begun = monotonic()
    try:
        log, cut = read_log(file, reading, seen)
        size = file.path.stat().st_size
    except (OSError, GangstartError) as error:
        said = error.strerror if isinstance(error, OSError) else str(error)
        why = f"{file.name}: {said}"
        trace.sources.append(SourceState(name, Outcome.UNREACHABLE, why))
        return
    outcome = Outcome.USED if size else Outcome.EMPTY
    detail = f"{file.name}, {log.lines} lines{cut}"
    took = round(monotonic() - begun, 3)
    trace.sources.append(SourceState(name, outcome, detail, took))
    if reading.kernel:
        for event in log.events:
            event.place = type(event.place)(f"dmesg:{reading.node}", event.place.line)
    made.append(log)


def empty(job_id: str) -> Trace:
    """A trace that knows nothing but the job's number."""
    return Trace(Job(job_id))
