"""What checks of the nodes found: before the job, at its start, and after it.

A check says how a node was, not what a program met. So what it found is a cause where
the job met something that fits: an error of CUDA on that node, a wait that failed, a
start or a prolog that was refused. Where the program failed by itself, or Slurm or a
person ended a job that went well, it is told beside the cause and blames nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangstart.gpuxid import xid_info
from gangstart.triage.cause import ENDED, LINK, MACHINE, MET, WAITED, Cause, Facts
from gangstart.triage.model import Confidence
from gangstart.triage.rule.hardware import GROUP_CODES, XID_CODES, XID_TRACES

if TYPE_CHECKING:
    from gangstart.triage.model import Event

#: What a check or a reading of the C core (gpucheck.c, gpudiffrow.c) stands for.
CODE_OF = {
    **dict.fromkeys(("lost", "gone", "bus"), "GPU_FELL_OFF_BUS"),
    **dict.fromkeys(("count", "step_gpu"), "GPU_COUNT"),
    **dict.fromkeys(
        (
            "ecc_unc",
            "ecc_history",
            "sram_unc",
            "sram_threshold",
            "remap_rows",
            "remap_failed",
            "remap_pending",
            "remap_banks",
            "unrepairable",
            "retired",
            "retired_dbe",
            "retired_pending",
        ),
        "GPU_ECC",
    ),
    **dict.fromkeys(("nvlink", "nvlink_errors", "p2p", "c2c", "sxid"), "GPU_NVLINK"),
    **dict.fromkeys(("fabric", "fabric_bad"), "FABRIC_MANAGER"),
    **dict.fromkeys(
        ("reset", "recovery", "hung", "query", "handle", "init", "pcie_width"),
        "GPU_HW",
    ),
    **dict.fromkeys(("process", "memory_held"), "GPU_LEFTOVER_MEMORY"),
    "driver": "NODE_SOFTWARE",
    "compute_mode": "GPU_BUSY",
}
REFUSED = ("gang_refused", "prolog_failed")
UNFIT = "a check found it, but nothing in the job points to it"


def code_of(event: Event) -> str | None:
    """The cause that a finding or a change stands for; None if none."""
    told = event.fields.get("reading") or event.fields.get("check") or ""
    if told != "xid":
        return CODE_OF.get(told)
    number = event.number("after") or 0
    if number in XID_TRACES:
        return None
    return XID_CODES.get(number) or GROUP_CODES.get(xid_info(number).group)


def sick(facts: Facts) -> list[Cause]:
    """GPUs that a check found broken, or that changed for the worse during the job."""
    made: dict[tuple[str | None, str], Cause] = {}
    for event in (*facts.of("check_change"), *facts.of("check_gpu")):
        code = code_of(event)
        changed = event.kind == "check_change"
        bad = event.fields.get("verdict") == "fail"
        # Before the job a warning is of no matter; what came during the job is.
        if code is None or not (bad or changed) or not _of_job(facts, event):
            continue
        key = (event.node, code)
        if key in made:
            made[key].events.append(event)
        else:
            made[key] = _cause(facts, event, code, bad=bad)
    return list(made.values())


def _of_job(facts: Facts, event: Event) -> bool:
    return not facts.nodes or event.node is None or event.node in facts.nodes


def _cause(facts: Facts, event: Event, code: str, *, bad: bool) -> Cause:
    """How much a finding weighs by what the job met on that node."""
    own = [e for e in facts.of(*MET) if e.node in {None, event.node}]
    waited = facts.of(*WAITED)
    stopped = _refused(facts) if event.fields.get("stage") in STARTS else False
    firm = bool(own and bad) or stopped
    cause = Cause(
        code,
        MACHINE if own or stopped else LINK,
        [event],
        event.node,
        _rank(facts, event, own),
        event.fields.get("index") or event.fields.get("pci"),
        Confidence.PROVEN if firm else _less(bool(own or waited) and bad),
        _what(event),
    )
    if not (own or waited or stopped) and (facts.state in ENDED or not bad):
        cause.noise = UNFIT
    return cause


STARTS = {"prolog", "start"}


def _less(likely: bool) -> Confidence:  # noqa: FBT001  the only argument
    return Confidence.LIKELY if likely else Confidence.POSSIBLE


def _refused(facts: Facts) -> bool:
    """Whether the job was not let start."""
    return bool(facts.of(*REFUSED)) or facts.trace.layout.outcome == "refused"


WHEN = {
    "prolog": "before the job",
    "start": "at its start",
    "epilog": "after the job",
    "node": "by a check",
}


def _what(event: Event) -> str:
    when = WHEN.get(event.fields.get("stage", ""), "by a check")
    if event.kind == "check_change":
        return f"compared with before the job, {event.text}"
    return f"found {when}: {event.text}"


def _rank(facts: Facts, event: Event, own: list[Event]) -> int | None:
    """The rank of a GPU where each rank of the node has one; else who met an error."""
    ranks, index = facts.ranks_of(event.node), event.number("index")
    if index is not None and len(ranks) == event.number("gpus") and index < len(ranks):
        return ranks[index]
    met = {e.rank for e in own if e.rank is not None and e.node == event.node}
    return met.pop() if len(met) == 1 else None


def held_up(facts: Facts) -> list[Cause]:
    """A prolog or a start that was refused for what ended jobs had left on a GPU."""
    left = [
        e
        for e in facts.of("check_left")
        if e.fields.get("stage") in STARTS and e.number("mib") and _of_job(facts, e)
    ]
    drained = {e.node for e in facts.of("check_drain")}
    left = [e for e in left if e.node in drained]
    if not left or not _refused(facts):
        return []
    first = left[0]
    return [
        Cause(
            "GPU_LEFTOVER_MEMORY",
            MACHINE,
            left,
            first.node,
            confidence=Confidence.PROVEN,
            what=f"before the job {first.text} on {first.node}",
        )
    ]


RULES = (sick, held_up)
