"""Kernel lines whose time is not known: how much they may weigh.

``dmesg`` without -T counts seconds from the node's boot. Where nobody knows when that
was, a line may be of an earlier job: it counts for something only where the job itself
met what fits it, and it proves nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangstart.triage.cause import ENDED, MET, PROGRAM, WAITED, Cause, Facts
from gangstart.triage.model import Confidence

if TYPE_CHECKING:
    from gangstart.triage.model import Event

NOTE = (
    "when the kernel wrote that is not known (it counts from the node's boot): give "
    "the output of dmesg -T or of journalctl -k"
)
UNTIED = "the time of the kernel line is not known, and nothing in the job points to it"
#: What a job shows beside the errors of a GPU where the kernel ended its processes.
STRUCK = ("task_signal", "dataloader_killed", "task_oom", "node_not_responding")
LOST = {"OUT_OF_MEMORY", "NODE_FAIL"}


def weigh(facts: Facts, cause: Cause, causes: list[Cause]) -> None:
    """Lower a cause that rests on kernel lines of an unknown time alone."""
    if not cause.events or not all(untimed(event) for event in cause.events):
        return
    cause.notes.append(NOTE)
    if any(tied(facts, event) for event in cause.events):
        if cause.confidence is Confidence.PROVEN:
            cause.confidence = Confidence.LIKELY
        return
    cause.confidence = Confidence.POSSIBLE
    own = any(c.level == PROGRAM and not c.noise for c in causes if c is not cause)
    if own or facts.state in ENDED:
        cause.noise = cause.noise or UNTIED


def untimed(event: Event) -> bool:
    """Whether it is a kernel line whose time nobody knows."""
    return event.time is None and event.place.source.startswith("dmesg:")


def tied(facts: Facts, event: Event) -> bool:
    """Whether something else shows that the line is of this job's time."""
    job = facts.trace.job.job_id.partition("_")[0]
    named = " ".join(event.fields.values())
    if job and (f"job_{job}/" in named + "/" or facts.state in LOST):
        return True
    if event.number("pid") in facts.trace.layout.pids.get(event.node or "", ()):
        return True
    met = facts.of(*MET, *WAITED, *STRUCK)
    return any(e.node in {None, event.node} and not untimed(e) for e in met)
