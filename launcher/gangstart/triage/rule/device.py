"""GPUs as the program found them: taken, bound to the wrong rank, full."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gangstart.triage.cause import MACHINE, PROGRAM, Cause, Facts
from gangstart.triage.model import Confidence
from gangstart.triage.rule.hardware import LEFTOVER_MIB, is_stale, simple

if TYPE_CHECKING:
    from gangstart.triage.model import Event, GpuUse

OTHER = re.compile(r"Process (\d+) has ([\d.]+) (GiB|MiB) memory in use")
SOME = 2  # with more ranks it is how the job was started, no single rank
OWN_GPU = re.compile(r"\bGPU (\d+)\b")


def busy(facts: Facts) -> list[Cause]:
    """A GPU that the driver will not give: somebody else has it, or it is ill."""
    made = simple(
        facts,
        ("gpu_busy",),
        "GPU_BUSY",
        PROGRAM,
        "a GPU is busy or unavailable: another process holds it, or it needs a reset",
    )
    for cause in made:
        use = _leftover(facts, cause.node, None)
        if use:
            cause.notes.append(_held_by(use, _strangers(facts, use)))
    return made


def duplicate(facts: Facts) -> list[Cause]:
    """Two ranks on one GPU."""
    made: list[Cause] = []
    for event in facts.of("duplicate_gpu")[:1]:
        ranks = sorted(
            rank for rank in (event.rank, event.number("other")) if rank is not None
        )
        pci = event.fields.get("pci", "")
        made.append(
            Cause(
                "DUPLICATE_GPU",
                PROGRAM,
                facts.of("duplicate_gpu"),
                event.node,
                gpu=pci,
                confidence=Confidence.PROVEN,
                what=f"ranks {' and '.join(map(str, ranks))} use the same GPU (CUDA "
                f"device {pci}): give each its own (LOCAL_RANK, --gpus-per-task)",
            )
        )
    return made


def binding(facts: Facts) -> list[Cause]:
    """Visible devices and local ranks do not fit."""
    events = facts.of("gpu_binding", "no_gpu")
    if not events:
        return []
    first = events[0]
    none = first.kind == "no_gpu"
    what = (
        "the rank sees no GPU: CUDA_VISIBLE_DEVICES is empty, no GPU was asked for, "
        "or the driver lost them"
        if none
        else "the rank asks for a GPU that it cannot see: LOCAL_RANK does not fit "
        "CUDA_VISIBLE_DEVICES (--gpus-per-task or --gpu-bind shows it one GPU only)"
    )
    node, rank = facts.where(events)
    ranks = {e.rank for e in events}
    return [
        Cause(
            "GPU_BINDING",
            PROGRAM,
            events,
            node or first.node,
            rank if rank is not None else (first.rank if len(ranks) <= SOME else None),
            what=what,
        )
    ]


def cuda_memory(facts: Facts) -> list[Cause]:
    """GPU memory ran out: the job's own use, or another process's."""
    events = [e for e in facts.of("cuda_oom") if not facts.survived(e)]
    if not events:
        return []
    for event in events:
        stranger = _stranger(facts, event)
        if stranger:
            return [stranger]
    node, rank = facts.where(events)
    first = events[0]
    alone = len({e.rank for e in events}) == 1
    return [
        Cause(
            "CUDA_OOM",
            PROGRAM,
            events,
            node or (first.node if alone else None),
            rank if rank is not None or not alone else first.rank,
            confidence=Confidence.PROVEN,
            what="GPU memory ran out",
        )
    ]


def _gpu(facts: Facts, event: Event) -> int | None:
    """The GPU of an out-of-memory line; on a bound rank "GPU 0" is its own."""
    found = OWN_GPU.search(event.text)
    if found is None:
        return None
    number = int(found[1])
    ranks = facts.ranks_of(event.node)
    if number == 0 and event.rank in ranks and len(ranks) > 1:
        others = [OWN_GPU.search(e.text) for e in facts.of("cuda_oom")]
        if all(other is None or other[1] == "0" for other in others):
            return ranks.index(event.rank)
    return number


def _stranger(facts: Facts, event: Event) -> Cause | None:
    """Memory of the GPU is held by a process that is not of this job."""
    ours = {pid for pids in facts.trace.layout.pids.values() for pid in pids}
    gpu = _gpu(facts, event)
    for pid, amount, unit in OTHER.findall(event.text):
        mib = float(amount) * (1024 if unit == "GiB" else 1)
        if mib < LEFTOVER_MIB:
            continue
        if int(pid) in ours:
            return _shared(facts, event, int(pid))
        if ours or _before(facts, event.node, int(pid)):
            return _foreign(event, gpu, f"pid {pid} ({amount} {unit})", proven=True)
        if not _sibling(facts, event):
            return _foreign(event, gpu, f"pid {pid} ({amount} {unit})", proven=False)
    use = _leftover(facts, event.node, gpu)
    if use:
        return _foreign(event, gpu, _held_by(use, _strangers(facts, use)), proven=True)
    return None


def _sibling(facts: Facts, event: Event) -> bool:
    """Whether another rank of the node ran out of memory on the same GPU."""
    mine = OWN_GPU.search(event.text)
    return any(
        other.rank != event.rank
        and other.node == event.node
        and (found := OWN_GPU.search(other.text)) is not None
        and mine is not None
        and found[1] == mine[1]
        for other in facts.of("cuda_oom")
    )


def _before(facts: Facts, node: str | None, pid: int) -> bool:
    return any(use.node == node and pid in use.pids for use in facts.trace.gpu_uses)


def _strangers(facts: Facts, use: GpuUse) -> dict[int, float]:
    ours = set(facts.trace.layout.pids.get(use.node, ()))
    return {pid: mib for pid, mib in use.pids.items() if pid not in ours}


def _leftover(facts: Facts, node: str | None, gpu: int | None) -> GpuUse | None:
    for use in facts.trace.gpu_uses:
        fits = use.node == node and gpu in {None, use.gpu}
        if fits and sum(_strangers(facts, use).values()) >= LEFTOVER_MIB:
            return use
    return None


def _held_by(use: GpuUse, pids: dict[int, float]) -> str:
    held = ", ".join(
        f"pid {pid} ({mib:.0f} MiB{', ' + use.whose[pid] if pid in use.whose else ''})"
        for pid, mib in pids.items()
    )
    return f"GPU {use.gpu} of {use.node} was held by {held} before the job"


def _foreign(event: Event, gpu: int | None, who: str, *, proven: bool) -> Cause:
    return Cause(
        "GPU_LEFTOVER_MEMORY",
        MACHINE,
        [event],
        event.node,
        event.rank,
        gpu=None if gpu is None else str(gpu),
        confidence=Confidence.PROVEN if proven else Confidence.LIKELY,
        what=f"memory of GPU {'?' if gpu is None else gpu} is held by a process that "
        f"is not of this job: {who}",
    )


def _shared(facts: Facts, event: Event, pid: int) -> Cause:
    return Cause(
        "DUPLICATE_GPU",
        MACHINE,
        facts.of("cuda_oom"),
        event.node,
        what=f"two ranks use one GPU: pid {pid}, which holds memory there, is of this "
        "job too",
    )


def lost_while_running(facts: Facts) -> list[Cause]:
    """The driver's tools fail on a node: the driver is not loaded, or mismatched."""
    events = [
        e
        for e in facts.of("driver_mismatch", "driver_old", "nvml_failed")
        if not is_stale(facts, e)
    ]
    if not events:
        return []
    node, rank = facts.where(events)
    if node is None and events[0].node is None:
        # The line came from the job script: the ranks that then saw no GPU tell where.
        node, _ = facts.where(facts.of("no_gpu", "gpu_binding", "cuda_error"))
    return [
        Cause(
            "NODE_SOFTWARE",
            MACHINE,
            events,
            node or events[0].node,
            rank,
            what="the GPU driver does not fit or is not loaded",
        )
    ]


RULES = (busy, duplicate, binding, cuda_memory, lost_while_running)
