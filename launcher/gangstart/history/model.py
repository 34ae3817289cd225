"""What is known of nodes across jobs: values only. docs/history.schema.json is it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

SCHEMA = "gangstart.history"
VERSION = 1

#: The chance that an answer accuses any node that is like the others, in all.
ALPHA = 0.01
#: A node is late in a job if it was complete so long after the median of the others.
LATE_S = 1.0
#: Jobs that a node must have been compared in before anything is said of it.
LEAST_JOBS = 5
#: What happens in fewer of a node's jobs is not worth a technician's way.
LEAST_SHARE = 0.1
#: Looks at a node without a finding after which it counts as mended.
LOOKS_CLEAR = 3
#: Jobs of a node that are weighed: its newest. Bounds time and memory.
JOBS_MOST = 512


@dataclass(frozen=True)
class Share:
    """How many of a node's jobs something happened in, beside what chance would do.

    standing: worse (more than chance would do), mended (worse, but not in so many of
    its newest jobs that this is no chance either), ordinary, unknown (too few jobs).
    """

    jobs: int  # that the node was compared in
    hits: int
    expected: float  # hits if the node were like the others of each job
    chance: float  # of as many hits, if it were; exact
    adjusted: float  # the same for the number of tests made (Holm)
    low: float  # Wilson interval, 95 %, of hits/jobs
    high: float
    users: int  # whose jobs the hits are from
    since: int  # the newest jobs in a row without a hit
    last_at: float | None  # seconds since 1970, of the newest hit
    last_step: str  # JOB.STEP of it, "" if there is none
    standing: str


@dataclass(frozen=True)
class Lateness(Share):
    """Starts in which the node was complete LATE_S or more after the others' median."""

    median_s: float | None  # over all its jobs; negative: before the others
    late_median_s: float | None  # over those in which it was late
    worst_s: float | None
    worst_step: str


@dataclass(frozen=True)
class Refusals(Share):
    """Starts that were refused because of the node itself."""

    reasons: dict[str, int]  # as the start report has them


@dataclass(frozen=True)
class Seen:
    """One check's finding, over all looks at the node."""

    check: str  # its id; a fault of the kernel log with its number: xid 79
    verdict: str  # the worst: warn or fail
    jobs: int
    first_at: float
    last_at: float
    last_job: int
    since: int  # looks at the node after it that did not find it
    of_jobs: bool  # what jobs leave behind: it says nothing of the node
    reason: str  # of the newest; a driver's or user's text, cleaned

    @property
    def mended(self) -> bool:
        """Whether enough looks have not found it again."""
        return self.since >= LOOKS_CLEAR


@dataclass(frozen=True)
class Node:
    """One node. verdict: fail, warn, unknown (too few jobs) or ok."""

    name: str
    verdict: str
    jobs: int  # jobs it was in
    looks: int  # jobs in which somebody looked at its GPUs or at it
    last_at: float | None
    late: Lateness
    refused: Refusals
    findings: tuple[Seen, ...]  # worst first
    sentences: tuple[str, ...]  # what it is accused of, with the evidence
    next: str  # what to type, "" without an accusation


@dataclass(frozen=True)
class Reading:
    """What was read, and what was not."""

    places: str
    cluster: str
    jobs: int = 0
    starts: int = 0
    refused: int = 0
    not_compared: int = 0  # released, but of one node, or not every node is known
    copies: int = 0  # further copies of the same starts
    left_out: int = 0  # further steps of jobs with very many
    checks: int = 0  # events of node checks
    other_clusters: int = 0  # starts of other clusters, left out
    broken: int = 0  # files that are no report, or of another version
    unreadable: int = 0  # files and folders that must not be read
    examples: tuple[str, ...] = ()  # some of those, each with why
    oldest: float | None = None
    newest: float | None = None
    complete: bool = True  # False: the deadline or a limit ended it
    note: str = ""  # why it is not complete


@dataclass(frozen=True)
class History:
    """Nodes across jobs, the worst first."""

    since: float | None
    until: float | None
    reading: Reading
    tests: int  # p-values that the correction is for
    late_rate: float  # of all nodes and jobs
    refusal_rate: float
    nodes: tuple[Node, ...]
    never_seen: tuple[str, ...] = ()  # asked for, but in no start
    alpha: float = ALPHA
    late_s: float = LATE_S
    least_jobs: int = LEAST_JOBS
    fleet: int = 0  # nodes that were seen, asked for or not

    def node(self, name: str) -> Node | None:
        """One node, None if it was in no start."""
        return next((one for one in self.nodes if one.name == name), None)

    def as_json(self) -> dict[str, Any]:
        """The answer as docs/history.schema.json describes it."""
        told = asdict(self)
        for node in told["nodes"]:
            for seen in node["findings"]:
                seen["mended"] = seen["since"] >= LOOKS_CLEAR
        return {"schema": SCHEMA, "version": VERSION, **told}
