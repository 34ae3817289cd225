"""GPUs: what the driver, the health check and the exporters recorded about them."""

from __future__ import annotations

import re
from math import isfinite
from typing import TYPE_CHECKING

from gangstart.gpuxid import xid_info
from gangstart.triage.cause import LINK, MACHINE, PROGRAM, Cause, Facts
from gangstart.triage.model import Confidence, Event, Place
from gangstart.triage.series import clipped, span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gangstart.triage.model import Sample, Series

#: Xids that name more than "reset it": NVIDIA's Xid catalogue.
XID_CODES = {
    48: "GPU_ECC",
    63: "GPU_ECC",
    64: "GPU_ECC",
    94: "GPU_ECC",
    95: "GPU_ECC",
    140: "GPU_ECC",
    171: "GPU_ECC",
    172: "GPU_ECC",
    74: "GPU_NVLINK",
    **dict.fromkeys(range(144, 151), "GPU_NVLINK"),
    155: "GPU_NVLINK",
    79: "GPU_FELL_OFF_BUS",
    13: "APP_ILLEGAL_ACCESS",
    31: "APP_ILLEGAL_ACCESS",
    109: "GPU_HW",
}
#: Traces of another fault: never a cause alone.
REMAPPED = 63
XID_TRACES = {43, 45, REMAPPED, 92, 154}
GROUP_CODES = {"app": "APP_EXCEPTION", "reset": "GPU_HW", "reboot": "GPU_HW"}
LEFTOVER_MIB = 512  # less is a context of a monitor
WAITING = ("nccl_watchdog", "nccl_heartbeat", "monitored_barrier", "stall", "thermal")
NO_FABRIC = (
    "the NVSwitch fabric is not initialised (error 802): nvidia-fabricmanager is not "
    "running or does not match the driver"
)
SLOW = 0.85  # of the other GPUs' clock
HOT_C = 83.0  # NVIDIA's data-centre GPUs slow down at 83 to 90 degrees
#: NVML's bits: hardware slowdown, software and hardware thermal, power brake.
THERMAL_BITS = 0x8 | 0x20 | 0x40 | 0x80


def bus(pci: str) -> str:
    """A PCI address as it is compared: "0000:5d:00"."""
    found = re.search(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})", pci)
    return f"{found[1][-4:]}:{found[2]}:{found[3]}".lower() if found else pci.lower()


def is_stale(facts: Facts, event: Event) -> bool:
    """Whether a kernel line is older than the job."""
    start = facts.attempt.start if facts.attempt else None
    return start is not None and event.time is not None and event.time < start - 60.0


def foreign(facts: Facts, event: Event) -> bool:
    """Whether it is about a node that is not of this job."""
    return (
        bool(facts.nodes) and event.node is not None and event.node not in facts.nodes
    )


def xids(facts: Facts) -> list[Cause]:
    """Xids of the job's nodes during the job, one cause per GPU and code."""
    made: dict[tuple[str | None, str, str], Cause] = {}
    for event in facts.of("xid"):
        number = event.number("xid") or 0
        code = XID_CODES.get(number) or GROUP_CODES.get(xid_info(number).group)
        if code is None or (number in XID_TRACES and not _needed(facts, number)):
            continue
        key = (event.node, bus(event.fields.get("pci", "")), code)
        cause = made.setdefault(key, _xid_cause(facts, event, number, code))
        cause.events.append(event)
    return list(made.values())


def _needed(facts: Facts, number: int) -> bool:
    """A remapped row (63) counts when a program saw the memory error itself."""
    return number == REMAPPED and bool(facts.of("gpu_ecc"))


def _xid_cause(facts: Facts, event: Event, number: int, code: str) -> Cause:
    info = xid_info(number)
    app = code.startswith("APP_")
    pci = bus(event.fields.get("pci", ""))
    cause = Cause(
        code,
        PROGRAM if app else MACHINE,
        node=event.node,
        rank=_victim(facts, event),
        gpu=pci,
        confidence=Confidence.PROVEN,
        what=f"GPU {pci}: Xid {number} ({info.meaning})",
    )
    if is_stale(facts, event):
        cause.noise = "the kernel line is older than the job"
    elif foreign(facts, event):
        cause.noise = f"{event.node} is not a node of this job"
    return cause


def _victim(facts: Facts, event: Event) -> int | None:
    """The rank that used the GPU: by its pid, or the one with a CUDA error."""
    pid = event.number("pid")
    pids = facts.trace.layout.pids.get(event.node or "", ())
    if pid is not None and pid in pids:
        ranks = facts.ranks_of(event.node)
        place = pids.index(pid)
        return ranks[place] if place < len(ranks) else None
    broken = facts.of(
        "launch_failure",
        "cuda_error",
        "gpu_lost",
        "gpu_ecc",
        "gpu_nvlink",
        "illegal_access",
        "nccl_unhandled_cuda",
        "nccl_cuda",
    )
    ranks = [e.rank for e in broken if e.rank is not None and e.node == event.node]
    return ranks[0] if ranks else None


def simple(
    facts: Facts, kinds: Iterable[str], code: str, level: int, what: str
) -> list[Cause]:
    """One cause out of all events of some kinds."""
    events = facts.of(*kinds)
    if not events:
        return []
    first = events[0]
    node, rank = facts.where(events)
    return [
        Cause(
            code,
            level,
            events,
            node or first.node,
            rank if rank is not None else first.rank,
            what=what,
        )
    ]


def reported(facts: Facts) -> list[Cause]:
    """GPU faults that programs and tools report themselves."""
    made: list[Cause] = []
    for kinds, code, level, what in (
        (("gpu_lost",), "GPU_FELL_OFF_BUS", MACHINE, "a GPU has fallen off the bus"),
        (("gpu_ecc",), "GPU_ECC", MACHINE, "uncorrectable memory error of a GPU"),
        (("gpu_nvlink", "sxid"), "GPU_NVLINK", MACHINE, "NVLink error"),
        (("gpu_reset",), "GPU_HW", MACHINE, "a GPU needs a reset"),
        (
            ("fabric",),
            "FABRIC_MANAGER",
            MACHINE,
            NO_FABRIC,
        ),
    ):
        made += simple(facts, kinds, code, level, what)
    for cause in made:
        ranks = {e.rank for e in cause.events if e.rank is not None}
        if len(ranks) > 1:
            cause.rank = None
        cause.events = [e for e in cause.events if not is_stale(facts, e)]
    return [cause for cause in made if cause.events]


def counted(facts: Facts) -> list[Cause]:
    """Fewer GPUs than the job or the node should have."""
    made = []
    for event in facts.of("gpu_count", "gres_count"):
        found = event.number("found") or event.number("found2")
        wanted = event.number("wanted") or event.number("wanted2")
        if found is not None and wanted is not None and found < wanted:
            made.append(
                Cause(
                    "GPU_COUNT",
                    MACHINE,
                    [event],
                    event.node,
                    event.rank,
                    confidence=Confidence.PROVEN,
                    what=f"{found} of {wanted} GPUs are there",
                )
            )
    return made[:1]


def thermal(facts: Facts) -> list[Cause]:
    """A GPU whose clock stays well below the others', hot or held back."""
    by_gpu: dict[tuple[str, str], dict[str, list[float]]] = {}
    for series in facts.trace.series:
        run = clipped(series, *span(facts)).samples
        half = run[len(run) // 2 :]
        slot = by_gpu.setdefault((series.node, series.device), {})
        slot[series.quantity] = [s.value for s in half]
    clocks = {
        gpu: sorted(v["sm_clock_mhz"])[len(v["sm_clock_mhz"]) // 2]
        for gpu, v in by_gpu.items()
        if v.get("sm_clock_mhz")
    }
    made = []
    for gpu, clock in clocks.items():
        if _slow(facts, gpu, clock, clocks) and _held_back(by_gpu[gpu]):
            made.append(_straggler(facts, gpu, clock, by_gpu[gpu]))
    if not clocks:
        made = _braked(facts, by_gpu)
    found = made[:1] if len(made) == 1 else _node_straggler(made)
    for cause in found:
        cause.noise = "" if _was_slow(facts) else "a slow GPU ends no process"
    return found


def _was_slow(facts: Facts) -> bool:
    """Whether the job was slow, or waited: what a slow GPU does to it."""
    ended = facts.of("task_signal", "task_exit", "mpirun_signal", "elastic_failed")
    return not ended or facts.state != "FAILED" or bool(facts.of(*WAITING))


def gauges(facts: Facts) -> list[Cause]:
    """An exporter's Xid or count of uncorrected errors that changed during the job."""
    start = facts.attempt.start if facts.attempt else None
    made = []
    for series in facts.trace.series:
        before = [s for s in series.samples if start is None or s.time <= start]
        inside = [s for s in series.samples if start is not None and s.time > start]
        old = before[-1].value if before else 0.0
        new = next((s for s in inside if s.value != old and s.value), None)
        if new is None or (start is None or not (before or len(inside) > 1)):
            continue
        code = _gauge_code(series.quantity, bits(new.value))
        if code:
            made.append(_gauge(facts, series, new, code))
    return made


def bits(value: float) -> int:
    """A value as the bits or the code that it stands for; 0 of what is no number."""
    return int(value) if isfinite(value) else 0


def _gauge_code(quantity: str, value: int) -> str | None:
    """The cause that a new value of a gauge stands for."""
    if quantity in {"ecc_uncorrected", "row_remap_failure", "rows_remapped"}:
        return "GPU_ECC"
    if quantity != "xid" or value in XID_TRACES:
        return None
    return XID_CODES.get(value) or GROUP_CODES.get(xid_info(value).group)


def _gauge(facts: Facts, series: Series, new: Sample, code: str) -> Cause:
    ranks = facts.ranks_of(series.node)
    place = int(series.device) if series.device.isdecimal() else -1
    said = f"{series.query or series.quantity} became {new.value:.0f} during the job"
    event = Event(
        "series",
        f"{said} on GPU {series.device} of {series.node}",
        Place("prometheus"),
        time=new.time,
        node=series.node,
    )
    app = code.startswith("APP_")
    return Cause(
        code,
        PROGRAM if app else MACHINE,
        [event],
        series.node,
        ranks[place] if 0 <= place < len(ranks) else None,
        gpu=series.device,
        what=event.text,
    )


def _slow(
    facts: Facts,
    gpu: tuple[str, str],
    clock: float,
    clocks: dict[tuple[str, str], float],
) -> bool:
    others = sorted(value for one, value in clocks.items() if one != gpu)
    own = [
        s.value
        for series in facts.trace.series
        if (series.node, series.device) == gpu and series.quantity == "sm_clock_mhz"
        for s in series.samples
    ]
    usual = others[len(others) // 2] if others else max(own, default=0.0)
    return clock < SLOW * usual


def _braked(
    facts: Facts, by_gpu: dict[tuple[str, str], dict[str, list[float]]]
) -> list[Cause]:
    """Without clocks: the one GPU that says all the time that it is held back."""
    told = {
        gpu: v["throttle_bits"] for gpu, v in by_gpu.items() if "throttle_bits" in v
    }
    odd = [g for g, seen in told.items() if all(bits(b) & THERMAL_BITS for b in seen)]
    if len(odd) != 1 or len(told) <= 1:
        return []
    return [_straggler(facts, odd[0], None, by_gpu[odd[0]])]


def _held_back(values: dict[str, list[float]]) -> bool:
    seen = [bits(value) for value in values.get("throttle_bits", [])]
    hot = values.get("gpu_temp_c", [])
    return any(one & THERMAL_BITS for one in seen) or max(hot, default=0.0) >= HOT_C


def _straggler(
    facts: Facts,
    gpu: tuple[str, str],
    clock: float | None,
    values: dict[str, list[float]],
) -> Cause:
    node, device = gpu
    ranks = facts.ranks_of(node)
    place = int(device) if device.isdecimal() else -1
    hot = max(values.get("gpu_temp_c", [0.0]))
    seen = "it reports thermal or power throttling all the time"
    if clock is not None:
        seen = (
            f"SM clock {clock:.0f} MHz, well below the other GPUs (thermal throttling)"
        )
    return Cause(
        "THERMAL_STRAGGLER",
        LINK,
        facts.of("thermal"),
        node,
        ranks[place] if 0 <= place < len(ranks) else None,
        gpu=device,
        what=f"GPU {device} of {node} is slow: {seen}"
        + (f", at {hot:.0f} degrees" if hot else ""),
    )


def _node_straggler(made: list[Cause]) -> list[Cause]:
    """Several slow GPUs of one node: the node is slow, no single GPU."""
    if len({cause.node for cause in made}) != 1:
        return []
    return [Cause(made[0].code, LINK, [], made[0].node, what=made[0].what)]


RULES = (xids, reported, gauges, counted, thermal)
