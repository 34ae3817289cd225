"""What live series say before a failure: who stopped first, links, memory, reboots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gangstart.triage import series
from gangstart.triage.cause import LINK, MACHINE, MET, WAITED, Cause, Facts
from gangstart.triage.model import Confidence, Event, Place

if TYPE_CHECKING:
    from gangstart.triage.series import Grown

#: A rank that waits in a collective spins: its GPU shows full utilisation whatever its
#: power (NVIDIA/nccl#968); one that is not in it runs nothing. Between the two are
#: GPUs that compute now and then, which say nothing.
SPINS, IDLE = 90.0, 10.0  # percent
#: Without utilisation: a GPU at less than this part of the others' power is not in the
#: kernel that they spin in. Published pairs are 70 W idle to 112-120 W spinning (H100)
#: and 140 to 232-281 W (GB200, marin-community/marin#7344): 0.5 to 0.65.
POWER_PART = 0.7
#: Of the GPUs with values, so many at most can have stopped first: where more are idle
#: the silence of a few says nothing.
FEW = 0.25
#: How long before the end a job that was ended from outside is looked at.
LOOKED_S = 600.0
#: DCGM's health watch (dcgm_gpu_hardware_limits.h): one replay or recovery counts, CRC
#: errors count from 100 a second on.
CRC_A_SECOND = 100.0
#: node_boot_time_seconds wanders by a second when the clock is set.
REBOOT_S = 60.0


@dataclass(frozen=True)
class Stopped:
    """GPUs that ran nothing while the others waited."""

    ranks: tuple[int, ...]
    node: str | None  # of all of them, if it is one
    events: tuple[Event, ...]
    how: str


def stopped(facts: Facts) -> Stopped | None:
    """Who stopped first: whose GPU is idle while the others spin in a collective."""
    begin, end = waited(facts)
    if begin is None or end is None:
        return None
    util = levels(facts, "gpu_util", begin, end)
    power = levels(facts, "gpu_power_w", begin, end)
    if not util and not facts.of("nccl_watchdog"):
        return None  # less power may be a slow GPU where nobody is known to wait
    idle = idle_of(util, power)
    if not idle:
        return None
    return named(facts, idle, util or power, "%" if util else " W")


def levels(facts: Facts, quantity: str, begin: float, end: float) -> dict[str, float]:
    """How high a gauge of each GPU of the job was over a span.

    A GPU is the job's where its node has one rank for each, or where it was not idle
    earlier in the run; others on a shared node are left out. Where nobody is known to
    have waited, only a GPU that worked earlier can have stopped.
    """
    told = series.told(facts, quantity)
    now = series.level(told, begin, end)
    start, _ = series.span(facts)
    before = series.level(told, start, begin)
    least = IDLE if quantity == "gpu_util" else min(now.values(), default=0.0) * 1.5
    sure = bool(facts.of("nccl_watchdog"))  # that ranks waited: one may never have run
    return {
        key: value
        for key, value in now.items()
        if (sure and fits(facts, key)) or before.get(key, 0.0) > least
    }


def fits(facts: Facts, key: str) -> bool:
    """Whether every GPU of a node that has values has a rank of the job."""
    node = key.partition("\0")[0]
    return len(gpus_of(facts, node)) == len(facts.ranks_of(node))


def gpus_of(facts: Facts, node: str) -> list[int]:
    """Indices of a node's GPUs that have values, ascending."""
    names = {s.device for s in facts.trace.series if s.node == node}
    return sorted(int(name) for name in names if name.isdecimal())


def waited(facts: Facts) -> tuple[float | None, float | None]:
    """While the ranks waited: until the first time-out; else the job's last minutes."""
    dogs = [e for e in facts.of("nccl_watchdog") if e.time is not None]
    if dogs:
        first = min(dogs, key=lambda e: e.time or 0.0)
        ran = (first.number("ran") or 0) / 1000 or LOOKED_S
        end = first.time
        return (None if end is None else end - ran), end
    end = facts.attempt.end if facts.attempt else None
    if end is None or facts.state not in {"TIMEOUT", "CANCELLED"}:
        return None, None
    return end - LOOKED_S, end


def idle_of(util: dict[str, float], power: dict[str, float]) -> list[str]:
    """Keys of the few GPUs that ran nothing; none where it is not clear."""
    known = util or power
    if util:
        spinning = [key for key, value in util.items() if value >= SPINS]
        idle = [key for key, value in util.items() if value <= IDLE]
    else:
        usual = sorted(power.values())[len(power) // 2] if power else 0.0
        idle = [key for key, value in power.items() if value <= POWER_PART * usual]
        spinning = [key for key in power if key not in idle]
    few = len(idle) <= max(1, FEW * len(known))
    clear = len(spinning) + len(idle) == len(known) and len(spinning) > 1
    return idle if few and clear else []


def named(
    facts: Facts, idle: list[str], values: dict[str, float], unit: str
) -> Stopped:
    """Ranks and evidence of the GPUs that stopped."""
    nodes = {key.partition("\0")[0] for key in idle}
    ranks = tuple(r for key in idle if (r := rank_of(facts, key)) is not None)
    others = sorted(value for key, value in values.items() if key not in idle)
    usual = others[len(others) // 2]
    events = tuple(
        Event(
            "series",
            f"GPU {key.partition(chr(0))[2]} of {key.partition(chr(0))[0]} was at "
            f"{values[key]:.0f}{unit} while the others were at {usual:.0f}{unit}",
            Place("prometheus"),
            node=key.partition("\0")[0],
        )
        for key in idle[:3]
    )
    own = values[idle[0]]
    how = f"its GPU was at {own:.0f}{unit}, the others' at {usual:.0f}{unit}"
    whole = ranks if len(ranks) == len(idle) else ()
    return Stopped(whole, nodes.pop() if len(nodes) == 1 else None, events, how)


def rank_of(facts: Facts, key: str) -> int | None:
    """The rank of a GPU, where each rank of its node has one of those with values."""
    node, _, device = key.partition("\0")
    if not fits(facts, key) or not device.isdecimal():
        return None
    place = gpus_of(facts, node).index(int(device))
    return facts.ranks_of(node)[place]


def nvlink(facts: Facts) -> list[Cause]:
    """NVLink errors that an exporter counted during the job."""
    bad = series.grown(facts, "nvlink_replays", "nvlink_recoveries")
    bad += [
        one
        for one in series.grown(facts, "nvlink_crc_errors")
        if one.seconds > 0 and one.by / one.seconds >= CRC_A_SECOND
    ]
    if not bad:
        return []
    worst = max(bad, key=lambda one: one.by)
    node, device = worst.series.node, worst.series.device
    kinds = set(MET) - {"illegal_access"}  # mostly the program's own
    met = [e for e in facts.of(*kinds) if e.node in {None, node}]
    cause = Cause(
        "GPU_NVLINK",
        MACHINE if met else LINK,
        [one.event for one in bad if one.series.node == node],
        node,
        gpu=device,
        confidence=Confidence.LIKELY if met else Confidence.POSSIBLE,
        what=f"NVLink errors grew on GPU {device} of {node} during the job",
    )
    if not met and not facts.of(*WAITED):
        cause.noise = "nothing in the job points to it"
    return [cause]


def rebooted(facts: Facts) -> list[Cause]:
    """A node that booted while the job ran."""
    begin, end = series.span(facts)
    made = []
    for one in series.told(facts, "boot_time_s"):
        values = [s.value for s in one.samples]
        after, before = max(values), min(values)
        inside = begin < after < end + series.SCRAPE_S
        if after - before < REBOOT_S or not inside:
            continue
        text = f"{one.query or one.quantity} went from {before:.0f} to {after:.0f}"
        event = Event("series", text, Place("prometheus"), time=after, node=one.node)
        made.append(
            Cause(
                "NODE_FAIL",
                MACHINE,
                [event],
                one.node,
                confidence=Confidence.PROVEN,
                what=f"node {one.node} booted anew while the job ran",
            )
        )
    return made[:1] if len(made) == 1 else []


def oom_kills(facts: Facts) -> list[Grown]:
    """Nodes whose kernel ended processes for want of memory during the job."""
    return series.grown(facts, "oom_kills")


def not_killed(facts: Facts, nodes: set[str]) -> list[str]:
    """Those nodes whose count of such ends is known, and did not grow."""
    hit = {one.series.node for one in oom_kills(facts)}
    begin, end = series.span(facts)
    known = {
        one.node
        for one in series.told(facts, "oom_kills")
        if one.samples[0].time <= begin + series.SCRAPE_S
        and one.samples[-1].time >= end - series.SCRAPE_S
    }
    return sorted((known - hit) & nodes)


RULES = (nvlink, rebooted)
