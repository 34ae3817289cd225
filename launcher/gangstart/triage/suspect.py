"""Which series are worth a look: those of the suspect, beside what is usual. Pure.

A picture and a reader want few series with few values: what is about the node or GPU
of the verdict, and one line for everything else.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from gangstart.triage.model import Pictured, Sample, Series
from gangstart.triage.source import metrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gangstart.triage.model import Verdict

POINTS_MOST = 240  # of one series: a picture's width, and what Prometheus is asked for
SERIES_MOST = 40
DEVICES_MOST = 8  # of one quantity: a node has eight GPUs as a rule
NODES_MOST = 2

#: Values that are looked at as they are, in this order; counters come after them.
GAUGES = (
    "gpu_util",
    "gpu_power_w",
    "gpu_temp_c",
    "sm_clock_mhz",
    "throttle_bits",
    "xid",
    "fb_used_mib",
    "mem_available_bytes",
    "ib_state",
)
#: Gauges that say something only by a change.
CODES = {"throttle_bits", "xid", "ib_state"}


def pictured(found: Sequence[Series], verdict: Verdict) -> list[Pictured]:
    """Series of the verdict's suspects, at most SERIES_MOST; none without a suspect."""
    nodes = suspects(verdict)
    device = verdict.gpu if verdict.gpu and verdict.gpu.isdecimal() else ""
    groups: dict[str, list[Series]] = defaultdict(list)
    for series in found:
        if series.samples:
            groups[series.quantity].append(series)
    made: list[Pictured] = []
    for quantity in ordered(groups):
        mine, others = split(groups[quantity], nodes, device)
        made += of_quantity(mine, others)
    return made[:SERIES_MOST]


def suspects(verdict: Verdict) -> tuple[str, ...]:
    """The verdict's node, else those of its evidence."""
    named = [verdict.node, *(one.node for one in verdict.evidence)]
    told = tuple(dict.fromkeys(name for name in named if name))
    return told[:1] if verdict.node else told[:NODES_MOST]


def ordered(groups: Iterable[str]) -> list[str]:
    """Quantities to show, the most telling first."""
    known = set(groups)
    counters = sorted(q for q in known if metrics.KINDS.get(q) == metrics.COUNTER)
    return [q for q in GAUGES if q in known] + counters


def split(
    found: Sequence[Series], nodes: Sequence[str], device: str
) -> tuple[list[Series], list[Series]]:
    """Series of the suspects, and all others; of a node without that GPU all count."""
    there = [one for one in found if one.node in nodes]
    exact = [one for one in there if device and one.device.split("/")[0] == device]
    mine = exact or there
    chosen = {id(one) for one in mine}
    return mine, [one for one in found if id(one) not in chosen]


def of_quantity(mine: list[Series], others: Sequence[Series]) -> list[Pictured]:
    """Series of one quantity: the most unusual ones if there are too many."""
    if mine and changes_only(mine[0].quantity):
        mine = [one for one in mine if len({s.value for s in one.samples}) > 1]
        others = ()
    usual = middle(others)
    if len(mine) > DEVICES_MOST:
        away = {id(one): distance(one, usual) for one in mine}
        mine = sorted(mine, key=lambda one: -away[id(one)])[:DEVICES_MOST]
    line = thinned(tuple(Sample(at, value) for at, value in sorted(usual.items())))
    return [
        Pictured(replace(one, samples=thinned(one.samples)), len(others), line)
        for one in sorted(mine, key=place)
    ]


def changes_only(quantity: str) -> bool:
    """Whether a value that stays the same says nothing."""
    return quantity in CODES or metrics.KINDS.get(quantity) == metrics.COUNTER


def place(series: Series) -> tuple[str, int, str]:
    """Order of nodes and devices: GPU 10 after GPU 9."""
    number = series.device.split("/")[0]
    return (series.node, int(number) if number.isdecimal() else -1, series.device)


def middle(found: Sequence[Series]) -> dict[float, float]:
    """Median of several series at each moment that any of them has a value at."""
    values: dict[float, list[float]] = defaultdict(list)
    for series in found:
        for sample in series.samples:
            values[sample.time].append(sample.value)
    return {at: median(told) for at, told in values.items()}


def distance(series: Series, usual: Mapping[float, float]) -> float:
    """How far a series is from the usual values on average, in its own unit."""
    away = [abs(s.value - usual[s.time]) for s in series.samples if s.time in usual]
    return sum(away) / len(away) if away else 0.0


def thinned(samples: Sequence[Sample], most: int = POINTS_MOST) -> tuple[Sample, ...]:
    """At most `most` values: the lowest and the highest of each stretch, in order."""
    if len(samples) <= most:
        return tuple(samples)
    stretches = most // 2
    made: list[Sample] = []
    for number in range(stretches):
        first = number * len(samples) // stretches
        last = (number + 1) * len(samples) // stretches
        part = samples[first:last]
        ends = {min(part, key=value), max(part, key=value)}
        made += sorted(ends, key=moment)
    return tuple(made)


def value(sample: Sample) -> float:
    """Its value."""
    return sample.value


def moment(sample: Sample) -> float:
    """Its time."""
    return sample.time
