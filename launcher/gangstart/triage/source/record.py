"""What Slurm has on record about a job, whoever was asked.

One `Record` is one entry of slurmctld or slurmdbd: each array task, each component of
a heterogeneous job and each run of a requeued one has its own. Times are seconds since
1970; None is unknown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from gangstart.errors import GangstartError
from gangstart.triage.model import NodeState, Outcome, PastJob, SourceState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

T = TypeVar("T")
WANTED = re.compile(r"(\d{1,10})(?:([_+])(\d{1,10}))?(?:\.(\d{1,10}|batch|extern))?")
BY_SIGNAL = 128  # a shell's exit code of a program that a signal ended, less the signal


class GarbageError(Exception):
    """An answer that is not what its source should give; says what is wrong."""


@dataclass(frozen=True)
class Exit:
    """How something ended.

    With ``exact`` false the source takes 128 off exit codes from 128 on (sacct's text
    and pyslurm do): code 11 is 11 or 139.
    """

    code: int = 0
    signal: int = 0
    exact: bool = True


@dataclass(frozen=True)
class StepRecord:
    """One step, or the batch script as "batch"."""

    name: str
    program: str = ""
    state: str = ""
    exit: Exit | None = None
    cancelled_by: int | None = None
    nodes: tuple[str, ...] = ()
    start: float | None = None
    end: float | None = None
    tasks: int | None = None
    max_rss_bytes: int | None = None
    stdout: str = ""
    stderr: str = ""
    submit_line: str = ""


@dataclass(frozen=True)
class Record:
    """One entry about a job."""

    number: int  # its own job id
    name: str = ""
    user: str = ""
    uid: int | None = None
    array: int | None = None
    task: int | None = None
    het: int | None = None
    het_offset: int | None = None
    state: str = ""  # the base state, such as CANCELLED
    flags: tuple[str, ...] = ()  # COMPLETING, REQUEUE_HOLD …
    reason: str = ""
    cancelled_by: int | None = None
    cancelled_name: str = ""  # where only the name is told
    exit: Exit = Exit()
    derived: Exit | None = None  # the worst of its steps
    restarts: int | None = None
    submit: float | None = None
    start: float | None = None
    end: float | None = None
    limit_s: float | None = None
    nodes: tuple[str, ...] = ()
    tasks: int | None = None
    tres: Mapping[str, str] = field(default_factory=dict)
    work_dir: str = ""
    stdout: str = ""  # as Slurm tells it: patterns may be left in it
    stderr: str = ""
    command: str = ""
    submit_line: str = ""
    steps: tuple[StepRecord, ...] = ()

    @property
    def shown(self) -> str:
        """The job's number as squeue shows it: 7_2, 8+1, 12."""
        if self.array is not None:
            return f"{self.array}_{'*' if self.task is None else self.task}"
        if self.het is not None:
            return f"{self.het}+{self.het_offset or 0}"
        return str(self.number)


@dataclass(frozen=True)
class Wanted:
    """The job that is asked for: all of it, one array task, or one component."""

    number: int
    task: int | None = None
    offset: int | None = None

    def __str__(self) -> str:
        """Say it as Slurm's commands do."""
        if self.task is not None:
            return f"{self.number}_{self.task}"
        return str(self.number) + ("" if self.offset is None else f"+{self.offset}")

    def means(self, record: Record) -> bool:
        """Whether a record is of this job."""
        if self.task is not None:
            return (record.array, record.task) == (self.number, self.task)
        if self.offset is not None:
            return (record.het, record.het_offset) == (self.number, self.offset)
        return self.number in (record.number, record.array, record.het)


def parse_wanted(text: str) -> Wanted:
    """Read JOB, JOB_TASK or JOB+COMPONENT; a step behind it is passed over."""
    match = WANTED.fullmatch(text)
    if not match:
        raise GangstartError(
            f"triage: {text[:60]!r} is not a job: a number such as 7877, an array task "
            "such as 7877_3, or a component of a heterogeneous job such as 7877+1",
            exit_code=2,
        )
    part = None if match[3] is None else int(match[3])
    return Wanted(
        int(match[1]),
        task=part if match[2] == "_" else None,
        offset=part if match[2] == "+" else None,
    )


@dataclass(frozen=True)
class Answer(Generic[T]):
    """What a source said, and how that went."""

    state: SourceState
    found: tuple[T, ...] = ()


def answered(name: str, found: Sequence[T], nothing: str, took_s: float) -> Answer[T]:
    """Make the answer of a source that could be asked."""
    outcome = Outcome.USED if found else Outcome.EMPTY
    plural = "" if len(found) == 1 else "s"
    detail = f"{len(found)} record{plural}" if found else nothing
    return Answer(SourceState(name, outcome, detail, took_s), tuple(found))


def unreachable(name: str, why: str, took_s: float | None = None) -> Answer[T]:
    """Make the answer of a source that could not be asked."""
    return Answer(SourceState(name, Outcome.UNREACHABLE, why, took_s))


def kept(answer: Answer[Record], wanted: Wanted, nothing: str) -> Answer[Record]:
    """Only records of the job that was meant."""
    if answer.state.outcome is Outcome.UNREACHABLE:
        return answer
    found = [one for one in answer.found if wanted.means(one)]
    return answered(answer.state.name, found, nothing, answer.state.took_s or 0.0)


class Slurm(Protocol):
    """One way to ask Slurm. No method raises: what goes wrong is in the answer."""

    name: str

    def controller(self, wanted: Wanted) -> Answer[Record]:
        """What slurmctld has in memory: nothing of jobs that ended long ago."""
        ...

    def accounting(self, wanted: Wanted) -> Answer[Record]:
        """What slurmdbd has: every run of the job, with its steps."""
        ...

    def nodes(self, names: Sequence[str]) -> Answer[NodeState]:
        """How these nodes are now."""
        ...

    def script(self, number: int) -> str:
        """The batch script of a job, "" if it cannot be had."""
        ...

    def past(self, names: Sequence[str], since: float, until: float) -> Answer[PastJob]:
        """Other jobs that ran on these nodes in that time."""
        ...
