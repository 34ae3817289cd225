"""The pictures of a start: how many tasks were there when, each node's lane. Pure."""

from __future__ import annotations

from statistics import quantiles
from typing import TYPE_CHECKING, Any

from gangstart.page import svg
from gangstart.page.axis import Axis, ruled
from gangstart.page.text import cut, number, plural, shown
from gangstart.report_view import arrivals, last_arrival

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gangstart.page.svg import Mark, Picture

WIDTH, LEFT, RIGHT = 1000.0, 190.0, 830.0
TOP, TALL, ROW = 28.0, 90.0, 20.0
CURVE_POINTS = 200
TASKS_MOST = 32  # of one node: more are one bar
LABEL_MOST, RANKS_MOST = 26, 40
LANES_MOST = 256
#: Tukey's fence for what is far out: the upper quartile and three times the distance
#: of the quartiles (Exploratory Data Analysis, 1977); never less than a second.
FENCE, LATE_LEAST_S = 3.0, 1.0
FEW_NODES = 4  # fewer have no usual arrival

Report = dict[str, Any]
Node = dict[str, Any]


def axis_of(report: Report) -> Axis | None:
    """From the moment srun began to wait to the decision, in seconds."""
    ends = [report["elapsed_s"] or 0.0, *map(last_arrival, report["nodes"])]
    end = max(ends, default=0.0)
    return Axis(0.0, end * 1.02, LEFT, RIGHT) if end > 0 else None


def fence(nodes: Sequence[Node]) -> float | None:
    """Give the arrival that is far behind the others; None if there are too few."""
    came = sorted(last_arrival(node) for node in nodes if arrivals(node))
    if len(came) < FEW_NODES:
        return None
    first, _, third = quantiles(came, n=4, method="inclusive")
    return third + max(FENCE * (third - first), LATE_LEAST_S)


def missing(node: Node) -> list[int]:
    """Ranks of a node that did not arrive."""
    return [task["rank"] for task in node["tasks"] if task["arrived_s"] is None]


def ranks_text(ranks: Sequence[int]) -> str:
    """Ranks as a list with ranges: "2-5, 9"."""
    made: list[list[int]] = []
    for rank in sorted(ranks):
        if made and rank == made[-1][1] + 1:
            made[-1][1] = rank
        else:
            made.append([rank, rank])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in made)


def curve(report: Report, axis: Axis | None) -> Picture | None:
    """How many tasks had arrived at each moment, of all nodes."""
    came = sorted(t for node in report["nodes"] for t in arrivals(node))
    total = sum(len(node["tasks"]) for node in report["nodes"])
    if axis is None or not came:
        return None
    bottom = TOP + TALL

    def y(count: int) -> float:
        return bottom - count / total * TALL

    points = [(axis.x(0.0), y(0))]
    step = max(len(came) // CURVE_POINTS, 1)
    for place in [*range(0, len(came), step), len(came) - 1]:
        points += [(axis.x(came[place]), points[-1][1])]
        points += [(axis.x(came[place]), y(place + 1))]
    points.append((axis.x(axis.end), points[-1][1]))
    marks = [
        svg.text(0, 13, "tasks that were there", "head"),
        *seconds(axis, TOP, bottom),
        *(svg.line(LEFT, y(n), RIGHT, y(n), "grid") for n in (0, total)),
        svg.text(LEFT - 6, y(total) + 4, f"all {total}", "tick", "end"),
        svg.text(LEFT - 6, y(0) + 4, "0", "tick", "end"),
        svg.polyline(points, "series s0"),
        svg.text(RIGHT + 8, points[-1][1] + 4, f"{len(came)} of {total}", "end s0"),
        *decided(report, axis, bottom),
    ]
    half = number(came[(len(came) - 1) // 2])
    says = (
        f"{len(came)} of {total} tasks arrived: the first after {number(came[0])} s, "
        f"half of them after {half} s, the last after {number(came[-1])} s."
    )
    title = "How many tasks were there when"
    return svg.Picture("curve", WIDTH, bottom + 26, title, says, tuple(marks))


def lanes(
    report: Report, nodes: Sequence[Node], axis: Axis | None, late: float | None
) -> Picture | None:
    """A lane for each of these nodes, at most LANES_MOST."""
    if axis is None or not nodes:
        return None
    shown_nodes = nodes[:LANES_MOST]
    bottom = TOP + ROW * len(shown_nodes)
    marks = [
        svg.rect(0, TOP + ROW * place, WIDTH, ROW, "band")
        for place in range(0, len(shown_nodes), 2)
    ]
    marks += [*legend(), *seconds(axis, TOP, bottom), *decided(report, axis, bottom)]
    for place, node in enumerate(shown_nodes):
        marks += lane(node, axis, TOP + ROW * place, late)
    short = [node for node in shown_nodes if missing(node)]
    says = (
        f"{plural(len(shown_nodes), 'node')} of {len(report['nodes'])}, "
        f"{len(short)} of them with tasks that did not come. "
        "The table has every number."
    )
    title = "Who came when"
    return svg.Picture("lanes", WIDTH, bottom + 26, title, says, tuple(marks))


def lane(node: Node, axis: Axis, y: float, late: float | None) -> list[Mark]:
    """One node: when it connected, when its tasks came, who is missing."""
    middle = y + ROW / 2
    name = shown(node["name"]) or "?"
    label = f"{name}  {shown(node['ranks'], 12)}"
    made = [svg.text(6, middle + 4, cut(label, LABEL_MOST), "lane")]
    came, connected = arrivals(node), node["connected_s"]
    if connected is not None:
        start = axis.x(connected)
        made.append(svg.line(start, y + 3, start, y + ROW - 3, "connected"))
    if came:
        first, last = axis.x(min(came)), axis.x(max(came))
        tip = f"{name}: {plural(len(came), 'task')} from {min(came):.2f} s"
        tip += f" to {max(came):.2f} s"
        made.append(svg.rect(first, middle - 4, max(last - first, 2), 8, "bar", tip))
        few = came if len(came) <= TASKS_MOST else []
        made += [
            svg.line(axis.x(t), middle - 6, axis.x(t), middle + 6, "task") for t in few
        ]
    return made + absent(node, axis, y) + verdict(node, y, late)


def absent(node: Node, axis: Axis, y: float) -> list[Mark]:
    """Show from where on ranks were waited for, and which."""
    gone = missing(node)
    if not gone:
        return []
    since = axis.x(max([0.0, *arrivals(node), node["connected_s"] or 0.0])) + 3
    width = RIGHT - since
    said = f"missing: {'rank' if len(gone) == 1 else 'ranks'} {ranks_text(gone)}"
    wide = 6.2 * min(len(said), RANKS_MOST)
    x, anchor = (since + 6, "start") if wide < width else (RIGHT - 4, "end")
    return [
        svg.rect(since, y + 3, width, ROW - 6, "missing", said),
        svg.text(x, y + ROW / 2 + 4, cut(said, RANKS_MOST), "gone", anchor),
    ]


def verdict(node: Node, y: float, late: float | None) -> list[Mark]:
    """Tell when the node was complete, or how far it got."""
    middle = y + ROW / 2 + 4
    if missing(node):
        return [svg.text(RIGHT + 8, middle, shown(node["phase"], 22), "end bad")]
    last = last_arrival(node)
    if late is not None and last > late:
        return [svg.text(RIGHT + 8, middle, f"{last:.2f} s, late", "end bad")]
    return [svg.text(RIGHT + 8, middle, f"{last:.2f} s", "end")]


def seconds(axis: Axis, top: float, bottom: float) -> list[Mark]:
    """Ticks in seconds."""
    made = ruled(axis, top, bottom, lambda tick: f"{round(tick, 6):g} s")
    made.append(svg.text(0, bottom + 17, "since srun began to wait", "tick weak"))
    return made


def decided(report: Report, axis: Axis, bottom: float) -> list[Mark]:
    """Draw the moment of the decision."""
    when = report["elapsed_s"]
    if when is None:
        return []
    x = axis.x(when)
    said = shown(report["outcome"], 20)
    return [
        svg.line(x, TOP - 6, x, bottom, "border"),
        svg.text(x, TOP - 9, said, "tick", "end" if x > RIGHT - 60 else "middle"),
    ]


def legend() -> list[Mark]:
    """What is what in a lane."""
    y = 12.0
    return [
        svg.line(LEFT, y - 6, LEFT, y + 6, "connected"),
        svg.text(LEFT + 8, y + 4, "node connected", "tick"),
        svg.rect(LEFT + 120, y - 4, 30, 8, "bar"),
        svg.line(LEFT + 120, y - 6, LEFT + 120, y + 6, "task"),
        svg.line(LEFT + 150, y - 6, LEFT + 150, y + 6, "task"),
        svg.text(LEFT + 158, y + 4, "first to last task", "tick"),
        svg.rect(LEFT + 280, y - 6, 30, 12, "missing"),
        svg.text(LEFT + 318, y + 4, "missing", "tick"),
    ]
