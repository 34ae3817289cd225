"""A possible cause, and the facts that rules look at to find causes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from gangstart.triage.model import Attempt, Confidence, Event, Trace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gangstart.triage.gather import Progress

#: How close to the root something is: a lower level explains a higher one.
MACHINE = 0  # a record of hardware, kernel or Slurm about a node
PROGRAM = 1  # what a program met: an exception, a full disk
LINK = 2  # what only shows on the wire, with evidence of its own
SYMPTOM = 3  # somebody waited for somebody
END = 4  # somebody or a limit ended the job
LAST = 5  # only a code that Slurm recorded

#: What a program says that met a sick GPU.
MET = (
    "cuda_error",
    "launch_failure",
    "gpu_lost",
    "gpu_ecc",
    "gpu_nvlink",
    "gpu_busy",
    "no_gpu",
    "nvml_failed",
    "nccl_unhandled_cuda",
    "nccl_cuda",
    "illegal_access",
    "fabric",
)
#: What everybody says who waited for it, or was not let start.
WAITED = (
    "nccl_watchdog",
    "nccl_heartbeat",
    "nccl_internal",
    "nccl_system",
    "nccl_remote",
    "node_failure",
)
#: The job went on until somebody ended it: a node's state is no reason then.
ENDED = {"COMPLETED", "TIMEOUT", "CANCELLED", "PREEMPTED", "DEADLINE"}


@dataclass
class Cause:
    """Something that may have ended the job."""

    code: str
    level: int
    events: list[Event] = field(default_factory=list)
    node: str | None = None
    rank: int | None = None
    gpu: str | None = None
    confidence: Confidence = Confidence.LIKELY
    what: str = ""  # the sentence, without who
    notes: list[str] = field(default_factory=list)
    # Whether a reader of the log would take it for the cause although it is none.
    noise: str = ""

    @property
    def first(self) -> Event | None:
        """Its first event."""
        return self.events[0] if self.events else None

    @property
    def time(self) -> float | None:
        """When it began; None if unknown."""
        first = self.first
        if first is None or first.time is None:
            return None
        waited = first.number("ran") if first.kind == "nccl_watchdog" else None
        return first.time - (waited or 0) / 1000

    @property
    def shown(self) -> float | None:
        """When it was reported."""
        return self.first.time if self.first else None


@dataclass
class Facts:
    """The final run of a job, with what rules ask again and again."""

    trace: Trace
    events: list[Event]
    earlier: list[Event]  # of runs before a requeue
    attempt: Attempt | None
    progress: list[Progress] = field(default_factory=list)
    last_lines: dict[int, Event] = field(default_factory=dict)  # rank -> newest line

    def of(self, *kinds: str) -> list[Event]:
        """Events of these kinds, in order."""
        return [event for event in self.events if event.kind in kinds]

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """Nodes of the final run."""
        listed = self.attempt.nodes if self.attempt else ()
        known = listed or self.trace.job.nodes
        return known or tuple(dict.fromkeys(self.trace.layout.rank_node.values()))

    @cached_property
    def world(self) -> frozenset[int]:
        """All ranks, empty if unknown."""
        return frozenset(self.trace.layout.rank_node)

    @cached_property
    def torchrun(self) -> bool:
        """Whether Slurm's tasks are torchelastic agents rather than ranks."""
        return any(event.kind.startswith("elastic") for event in self.events)

    @cached_property
    def state(self) -> str:
        """Slurm's state of the final run, "" if unknown."""
        return (self.attempt.state if self.attempt else "") or self.trace.job.state

    def node_of(self, rank: int | None) -> str | None:
        """Node of a rank."""
        return None if rank is None else self.trace.layout.node_of(rank)

    def ranks_of(self, node: str | None) -> list[int]:
        """Ranks of a node, ascending: their places are the local ranks."""
        layout = self.trace.layout.rank_node
        return sorted(rank for rank, where in layout.items() if where == node)

    def survived(self, event: Event) -> bool:
        """Whether the program went on as if nothing had happened.

        Five lines: what other ranks still had in their buffers is no progress.
        """
        source = event.place.source
        known = [p for p in self.progress if p.source == source]
        before = [p.step for p in known if p.order <= event.order]
        last = max(before, default=-1)
        return any(p.order > event.order + 5 and p.step > last for p in known)

    def where(self, events: Iterable[Event]) -> tuple[str | None, int | None]:
        """Node and rank that events agree on."""
        events = list(events)
        ranks = {event.rank for event in events if event.rank is not None}
        nodes = {event.node for event in events if event.node is not None}
        nodes |= {node for rank in ranks if (node := self.node_of(rank))}
        rank = ranks.pop() if len(ranks) == 1 else None
        node = nodes.pop() if len(nodes) == 1 else None
        return node, rank


def commonest(values: Iterable[str]) -> str | None:
    """The value that occurs most, the first of equals; None of nothing."""
    counted = Counter(values).most_common(1)
    return counted[0][0] if counted else None


def sequence(event: Event) -> tuple[float, int]:
    """Sort key: by time, and by line where times are equal or unknown."""
    return (event.time if event.time is not None else float("inf"), event.order)
