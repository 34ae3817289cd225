"""The data that triage works on: what the sources bring and what the rules answer.

Sources (files, Slurm, the spool, Prometheus) fill a ``Trace``; ``judge`` turns it
into a ``Verdict``. All times are seconds since 1970 by the clock of whoever wrote
them; ``Layout.offset_s`` aligns them. None means unknown, never zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Confidence(str, Enum):
    """How sure a conclusion is."""

    PROVEN = "proven"  # a record that can have no other cause
    LIKELY = "likely"  # fits everything seen, but something else could look the same
    POSSIBLE = "possible"  # the best that is left


class Outcome(str, Enum):
    """What came of asking a source."""

    USED = "used"
    EMPTY = "empty"  # it answered, and had nothing about this job
    UNREACHABLE = "unreachable"  # no answer in time, not readable, or garbage
    ABSENT = "absent"  # not configured or not asked


@dataclass(frozen=True)
class SourceState:
    """One line of "what was looked at"."""

    name: str  # "logs", "sacct", "scontrol", "prometheus", "kernel log of gn01"
    outcome: Outcome
    detail: str = ""  # what was read, or why nothing was
    took_s: float | None = None


@dataclass(frozen=True)
class Place:
    """Where a text was read: cited as ``source:line``."""

    source: str  # path of a file, or a name such as "dmesg:gn01", "sacct"
    line: int = 0  # counted from 1; 0 = the source has no lines

    def __str__(self) -> str:
        """FILE:LINE as an editor takes it."""
        return f"{self.source}:{self.line}" if self.line else self.source


@dataclass
class Event:
    """One thing that a source says happened."""

    kind: str  # the row's name in the table of events, e.g. "nccl_watchdog"
    text: str  # the line itself, cleaned and cut; untrusted
    place: Place
    order: int = 0  # position in its source, to order what has no time
    time: float | None = None  # aligned seconds since 1970
    node: str | None = None
    rank: int | None = None
    attempt: int = 0  # restart count of the job at that point
    fields: dict[str, str] = field(default_factory=dict)
    ranks: tuple[int, ...] = ()  # of a line about several ranks
    count: int = 1  # how many lines like it were folded into this one
    dated: bool = False  # by its node's own clock: it may be aligned

    def number(self, name: str) -> int | None:
        """A field as an integer; None when the line does not have it."""
        text = self.fields.get(name)
        try:
            return None if text is None else int(text)
        except ValueError:
            return None


@dataclass(frozen=True)
class Step:
    """One step of the job as Slurm accounts for it; also the batch script."""

    name: str  # "0", "batch", "extern", "interactive"
    state: str  # "FAILED", "CANCELLED", … without "by UID"
    exit_code: int = 0
    signal: int = 0
    nodes: tuple[str, ...] = ()
    start: float | None = None
    end: float | None = None
    tasks: int | None = None
    max_rss_bytes: int | None = None
    program: str = ""


@dataclass(frozen=True)
class Attempt:
    """One run of the job: a requeue begins another."""

    restart: int
    state: str
    exit_code: int = 0
    signal: int = 0
    derived_exit_code: int | None = None
    derived_signal: int | None = None
    cancelled_by: int | None = None  # uid out of "CANCELLED by UID"
    nodes: tuple[str, ...] = ()
    start: float | None = None
    end: float | None = None
    elapsed_s: float | None = None
    reason: str = ""
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Job:
    """The job as Slurm knows it."""

    job_id: str  # as given: "4801", "4801_3", "4801+1"
    name: str = ""
    user: str = ""
    state: str = ""  # of the newest attempt, or of the queue when it waits
    reason: str = ""  # why it waits, or Slurm's reason of the end
    restarts: int = 0
    nodes: tuple[str, ...] = ()
    submit: float | None = None
    time_limit_s: float | None = None
    stdout: str = ""  # paths with %-patterns already filled in
    stderr: str = ""
    work_dir: str = ""
    command: str = ""
    attempts: tuple[Attempt, ...] = ()  # oldest first
    # Purged by slurmctld: only the accounting knows it.
    purged: bool = False


@dataclass(frozen=True)
class NodeState:
    """A node as Slurm sees it now."""

    name: str
    state: str  # "IDLE", "DOWN*", "IDLE+DRAIN"
    reason: str = ""
    reason_time: float | None = None
    gres: str = ""
    boot_time: float | None = None


@dataclass(frozen=True)
class PastJob:
    """One earlier job, to see whether a node fails others too."""

    job_id: str
    user: str
    state: str
    nodes: tuple[str, ...]
    exit_code: int = 0
    elapsed_s: float | None = None
    end: float | None = None


@dataclass(frozen=True)
class Sample:
    """One value of a series."""

    time: float
    value: float


@dataclass(frozen=True)
class Series:
    """Values of one quantity of one thing.

    ``quantity`` is ours (see ``gangstart.triage.source`` for the mapping from the
    exporters' names): gpu_util (%), gpu_power_w, gpu_temp_c, sm_clock_mhz, xid,
    throttle_bits, fb_used_mib, ecc_uncorrected, ib_retransmits, ib_link_downed,
    ib_symbol_errors, mem_available_bytes.
    """

    quantity: str
    node: str
    device: str = ""  # GPU index, HCA name; "" = the node
    samples: tuple[Sample, ...] = ()
    query: str = ""  # what was asked, to be cited
    unit: str = ""


@dataclass
class Layout:
    """Who ran where, and how far each node's clock is off (the start report)."""

    rank_node: dict[int, str] = field(default_factory=dict)
    offset_s: dict[str, float] = field(default_factory=dict)  # its clock minus srun's
    pids: dict[str, tuple[int, ...]] = field(default_factory=dict)
    master: str = ""  # "node:port"
    outcome: str = ""  # of the start: released, refused, cancelled, waiting
    reason: str = ""
    message: str = ""
    missing_ranks: tuple[int, ...] = ()
    blamed_nodes: tuple[str, ...] = ()
    address_node: dict[str, str] = field(default_factory=dict)  # address -> node
    lateness_s: dict[str, float] = field(default_factory=dict)
    learnt: dict[int, str] = field(default_factory=dict)  # rank -> node, from the logs

    def node_of(self, rank: int) -> str | None:
        """Node of a rank: by the start report, else as the logs say."""
        return self.rank_node.get(rank) or self.learnt.get(rank)


@dataclass(frozen=True)
class GpuUse:
    """Who held memory of a GPU before the job began."""

    node: str
    gpu: int
    used_mib: float | None = None
    pids: dict[int, float] = field(default_factory=dict)  # pid -> MiB
    whose: dict[int, str] = field(default_factory=dict)  # pid -> program and ended job
    place: Place | None = None  # the record that says it
    time: float | None = None


@dataclass
class Trace:
    """Everything the sources brought about one job."""

    job: Job
    layout: Layout = field(default_factory=Layout)
    events: list[Event] = field(default_factory=list)
    nodes: dict[str, NodeState] = field(default_factory=dict)
    series: list[Series] = field(default_factory=list)
    gpu_uses: list[GpuUse] = field(default_factory=list)
    history: list[PastJob] = field(default_factory=list)
    # Node -> what gangstart history holds against it.
    standings: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sources: list[SourceState] = field(default_factory=list)
    log_end: float | None = None  # when the log was last written


@dataclass(frozen=True)
class Evidence:
    """What a conclusion rests on."""

    text: str  # the line, or "quantity 3 -> 5"; untrusted when quoted
    place: Place
    time: float | None = None
    node: str | None = None
    rank: int | None = None
    quoted: bool = True  # text comes from the job or a node, not from triage


@dataclass(frozen=True)
class Consequence:
    """Something else that was seen and that the cause explains."""

    code: str
    why: str
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True)
class RuledOut:
    """What a reader might think of first, and why it is not the cause."""

    code: str
    why: str


@dataclass(frozen=True)
class Command:
    """What to type or do next."""

    text: str
    why: str


@dataclass(frozen=True)
class Moment:
    """One line of the timeline."""

    time: float | None
    who: str
    what: str
    role: str  # initiating, cascade, teardown, context
    place: Place | None = None
    node: str | None = None
    rank: int | None = None


@dataclass(frozen=True)
class Pictured:
    """A series of a suspect, thinned out, beside the median of the others' series."""

    series: Series
    others: int = 0  # how many the median is of
    median: tuple[Sample, ...] = ()


@dataclass
class Verdict:
    """The answer: docs/triage.schema.json."""

    code: str
    sentence: str
    confidence: Confidence
    node: str | None = None
    rank: int | None = None
    gpu: str | None = None
    drain: bool | None = None
    training_completed: bool | None = None
    evidence: list[Evidence] = field(default_factory=list)
    secondary: list[Consequence] = field(default_factory=list)
    ruled_out: list[RuledOut] = field(default_factory=list)
    next: list[Command] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # what would settle it
    timeline: list[Moment] = field(default_factory=list)
    series: list[Pictured] = field(default_factory=list)  # of the suspects
    sources: list[SourceState] = field(default_factory=list)
    job: Job | None = None


Json = dict[str, Any]
