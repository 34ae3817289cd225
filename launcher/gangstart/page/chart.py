"""Small charts of what Prometheus had, on the time axis of the timeline. Pure.

A line is a suspect, the dashed one the median of everything else; what is a code or a
set of bits is a strip with its meaning written on it. Vertical lines are the moments
of the timeline.
"""

from __future__ import annotations

from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from gangstart.page import axis as axes
from gangstart.page import svg
from gangstart.page.text import cut, number, plural, shown, utc
from gangstart.page.timeline import LEFT, RIGHT, WIDTH, role_word

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gangstart.page.axis import Axis
    from gangstart.page.svg import Mark, Picture

TOP, TALL, STRIP = 24.0, 84.0, 18.0
LABEL_MOST = 19
SWATCH = 16.0  # a piece of the line before its name
LABEL_TALL = 13.0
GAP_STEPS = 3.0  # a hole in the values that is longer breaks the line
GIB = 1.0 / (1 << 30)
CHARTS_MOST = 12
NUMBER_ROOM = 14.0  # pixels that a number takes
LETTER = 7.0  # pixels that a letter takes at most
FEW = 4  # letters that are worth writing

Told = dict[str, Any]
Point = tuple[float, float]


class Kind(NamedTuple):
    """How a quantity is drawn."""

    title: str
    unit: str = ""
    scale: float = 1.0
    low: float | None = None  # where the scale begins; None: near the lowest value
    high: float | None = None


class Chart(NamedTuple):
    """A picture, and the same in words."""

    picture: Picture
    words: list[str]


KINDS = {
    "gpu_util": Kind("GPU utilisation", "%", 1.0, 0.0, 100.0),
    "gpu_power_w": Kind("GPU power", "W", 1.0, 0.0),
    "gpu_temp_c": Kind("GPU temperature", "°C"),
    "sm_clock_mhz": Kind("GPU clock", "MHz", 1.0, 0.0),
    "fb_used_mib": Kind("GPU memory in use", "GiB", 1.0 / 1024, 0.0),
    "mem_available_bytes": Kind("memory available on the node", "GiB", GIB, 0.0),
    "throttle_bits": Kind("why the GPU's clock is held back"),
    "xid": Kind("last Xid"),
    "ib_state": Kind("state of the InfiniBand port"),
}
#: Bits of NVML's nvmlDeviceGetCurrentClocksEventReasons, by nvml.h.
REASONS = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clocks",
}
#: States of a port, by node_exporter's node_infiniband_state_id (IBTA's PortState).
STATES = {0: "no change", 1: "down", 2: "init", 3: "armed", 4: "active"}
GPU_QUANTITIES = ("gpu_", "sm_", "fb_", "throttle", "xid", "ecc_", "nvlink_", "pcie_")


def reasons(value: float) -> str:
    """Name the bits of a throttle mask."""
    bits = int(value) if 0 <= value < 1 << 32 else 0  # what is more is garbage
    named = [name for bit, name in REASONS.items() if bits & bit]
    return " + ".join(named) or (f"{bits:#x}" if bits else "")


#: Quantities that are no line: what a value means, "" for nothing to see.
STRIPS: dict[str, Callable[[float], str]] = {
    "throttle_bits": reasons,
    "xid": lambda value: f"Xid {value:.0f}" if value else "",
    "ib_state": lambda value: STATES.get(int(value), f"{value:g}"),
}


def charts(answer: Told, axis: Axis | None) -> list[Chart]:
    """A chart for each quantity of an answer, in its order, at most CHARTS_MOST."""
    if axis is None:
        return []
    groups: dict[str, list[Told]] = {}
    for series in answer["series"]:
        if series["samples"]:
            groups.setdefault(series["quantity"], []).append(series)
    made = []
    for place, (quantity, found) in enumerate([*groups.items()][:CHARTS_MOST]):
        draw = strip if quantity in STRIPS else lines
        moments = when_marks(answer["timeline"], axis)
        made.append(draw(f"chart{place}", found, axis, moments))
    return made


def kind_of(found: Sequence[Told]) -> Kind:
    """Find how a quantity is drawn; one that is not in the table has its own name."""
    first = found[0]
    name = first["quantity"].replace("_", " ")
    return KINDS.get(first["quantity"], Kind(name, first["unit"]))


def when_marks(timeline: Sequence[Told], axis: Axis) -> Callable[[float], list[Mark]]:
    """Make the lines of the timeline's moments; of crowded numbers the cause's stay."""

    def made(bottom: float) -> list[Mark]:
        marks: list[Mark] = []
        taken: list[float] = []
        numbered = [*enumerate(timeline, 1)]
        for place, one in sorted(numbered, key=lambda n: n[1]["role"] != "initiating"):
            if not axis.has(one["time"]):
                continue
            x, role = axis.x(one["time"]), role_word(one["role"])
            marks.append(svg.line(x, TOP - 4, x, bottom, f"when {role}"))
            if all(abs(x - other) > NUMBER_ROOM for other in taken):
                marks.append(svg.text(x, TOP - 7, str(place), "tick", "middle"))
                taken.append(x)
        return marks

    return made


def label_of(series: Told) -> str:
    """Name a node's device."""
    return shown(" ".join(filter(None, (series["node"], device_of(series)))), 80)


def device_of(series: Told) -> str:
    """Name a device without its node; nothing for the node itself."""
    device, is_gpu = series["device"], series["quantity"].startswith(GPU_QUANTITIES)
    return shown(f"GPU {device}" if device and is_gpu else device, 60)


def labels_of(found: Sequence[Told]) -> list[str]:
    """Names beside the lines: without the node if it is one for all."""
    one_node = len({one["node"] for one in found}) == 1
    name = device_of if one_node else label_of
    return [name(one) or label_of(one) for one in found]


def lines(
    name: str,
    found: list[Told],
    axis: Axis,
    when: Callable[[float], list[Mark]],
) -> Chart:
    """Draw values over time."""
    kind = kind_of(found)
    scaled = [[(t, v * kind.scale) for t, v in one["samples"]] for one in found]
    others = found[0]["others"] or {"count": 0, "median": []}
    usual = [(t, v * kind.scale) for t, v in others["median"]]
    low, high = limits([v for one in [*scaled, usual] for _, v in one], kind)
    tall = max(TALL, LABEL_TALL * (len(found) + 1))
    bottom = TOP + tall

    def y(value: float) -> float:
        return bottom - (value - low) / (high - low) * tall

    marks = [
        *axes.drawn(axis, TOP, bottom),
        *(svg.line(LEFT, y(v), RIGHT, y(v), "grid") for v in (low, high)),
        *(
            svg.text(LEFT - 6, y(v) + 4, f"{number(v)} {kind.unit}", "tick", "end")
            for v in (low, high)
        ),
        *when(bottom),
        *polylines(usual, axis, y, "others"),
    ]
    usually = f"median of {others['count']} others"
    labels = [(y(value), usually, "others") for _, value in usual[-1:]]
    names = labels_of(found)
    for place, (said, points) in enumerate(zip(names, scaled, strict=True)):
        marks += polylines(points, axis, y, f"series s{place % 8}", said)
        labels.append((y(points[-1][1]), said, f"s{place % 8}"))
    for at, said, style in apart(labels, bottom):
        ends = [(RIGHT + 6, at), (RIGHT + 6 + SWATCH, at)]
        marks.append(svg.polyline(ends, f"swatch {style}"))
        x = RIGHT + 10 + SWATCH
        marks.append(svg.text(x, at + 4, cut(said, LABEL_MOST), f"end {style}"))
    return finished(name, found, marks, bottom, words(found, scaled, others, kind))


def strip(
    name: str,
    found: list[Told],
    axis: Axis,
    when: Callable[[float], list[Mark]],
) -> Chart:
    """Draw a row for each device, with what its values mean."""
    meaning = STRIPS[found[0]["quantity"]]
    marks: list[Mark] = []
    said = []
    y = TOP
    for one, label in zip(found, labels_of(found), strict=True):
        marks.append(svg.text(LEFT - 6, y + 14, label, "tick", "end"))
        told = [(b, e, meaning(v)) for b, e, v in stretches(one["samples"])]
        told = [stretch for stretch in told if stretch[2]]
        # One more than stretches, if there is none.
        ends = [*(axis.x(begin) for begin, _, _ in told[1:]), RIGHT + 140]
        for (begin, end, what), limit in zip(told, ends, strict=False):
            x, until = axis.x(begin), axis.x(end)
            tip = f"{utc(begin, '%H:%M:%S')} to {utc(end, '%H:%M:%S')} UTC: {what}"
            marks.append(svg.rect(x, y + 2, max(until - x, 3), STRIP - 2, "state", tip))
            letters = int((limit - x - 4) / LETTER)
            if letters >= FEW:  # up to the next; what is too narrow has its tip
                marks.append(svg.text(x + 4, y + 14, cut(what, letters), "said"))
            said.append(f"{label_of(one)}: {what} from {utc(begin, '%H:%M:%S')} UTC")
        y += STRIP + 2
    frame = axes.drawn(axis, TOP, y)
    return finished(name, found, [*frame, *when(y), *marks], y, said)


def finished(
    name: str, found: Sequence[Told], marks: list[Mark], bottom: float, said: list[str]
) -> Chart:
    """Give a chart its title and its words."""
    kind = kind_of(found)
    unit = f", {kind.unit}" if kind.unit else ""
    nodes = ", ".join(dict.fromkeys(one["node"] for one in found))
    title = f"{kind.title}{unit} · {shown(nodes, 80)}"
    head = svg.text(0, 13, title, "head")
    every = (head, *marks)
    about = shown("; ".join(said) or "nothing to see", 1000)
    picture = svg.Picture(name, WIDTH, bottom + 24, title, about, every)
    return Chart(picture, said)


def limits(values: Sequence[float], kind: Kind) -> tuple[float, float]:
    """Lowest and highest value of a scale, never the same."""
    least, most = min(values), max(values)
    room = (most - least) * 0.1 or abs(most) * 0.1 or 1.0
    low = min(kind.low, least) if kind.low is not None else least - room
    high = max(kind.high, most) if kind.high is not None else most + room
    return low, high


def polylines(
    points: Sequence[Point],
    axis: Axis,
    y: Callable[[float], float],
    style: str,
    tip: str = "",
) -> list[Mark]:
    """Draw a line, broken where values are missing."""
    return [
        svg.polyline([(axis.x(t), y(v)) for t, v in part], style, tip)
        for part in whole(points)
    ]


def whole(points: Sequence[Point]) -> list[list[Point]]:
    """Stretches without a hole."""
    if not points:
        return []
    steps = [b[0] - a[0] for a, b in pairwise(points)]
    most = GAP_STEPS * median(steps) if steps else 0.0
    made = [[points[0]]]
    for before, after in pairwise(points):
        if after[0] - before[0] > most:
            made.append([])
        made[-1].append(after)
    return made


def stretches(samples: Sequence[Sequence[float]]) -> list[tuple[float, float, float]]:
    """Begin, end and value of each stretch with the same value."""
    made: list[tuple[float, float, float]] = []
    for time, value in samples:
        if made:
            begin, _, before = made[-1]
            made[-1] = (begin, time, before)
            if before == value:
                continue
        made.append((time, time, value))
    return made


def apart(
    labels: list[tuple[float, str, str]], bottom: float
) -> list[tuple[float, str, str]]:
    """Labels from top to bottom, moved so that none covers another or sticks out."""
    made: list[tuple[float, str, str]] = []
    for at, said, style in sorted(labels):
        least = made[-1][0] + LABEL_TALL if made else at
        made.append((max(at, least), said, style))
    most = bottom
    for place in range(len(made) - 1, -1, -1):
        at, said, style = made[place]
        made[place] = (min(at, most), said, style)
        most = made[place][0] - LABEL_TALL
    return made


def words(
    found: Sequence[Told], scaled: Sequence[list[Point]], others: Told, kind: Kind
) -> list[str]:
    """Say what each line does."""
    made = []
    for one, points in zip(found, scaled, strict=True):
        values = [value for _, value in points]
        made.append(
            f"{label_of(one)}: {number(values[0])} → {number(values[-1])} {kind.unit} "
            f"(lowest {number(min(values))}, highest {number(max(values))})"
        )
    if others["median"]:
        last = number(others["median"][-1][1] * kind.scale)
        made.append(f"median of {plural(others['count'], 'other')}: {last} {kind.unit}")
    return made
