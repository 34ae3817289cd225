"""The picture of a triage: a lane for each rank or node, a mark for each line. Pure.

A mark has its number in the list below the picture; what came at nearly the same time
is stacked, so that each mark is at its own moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gangstart.page import axis as axes
from gangstart.page import svg
from gangstart.page.text import cut, plural, shown, utc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gangstart.page.axis import Axis
    from gangstart.page.svg import Mark, Picture

WIDTH, LEFT, RIGHT = 1000.0, 170.0, 850.0
TOP, ROW, PAD = 40.0, 25.0, 6.0
SIZE = 11.0  # of a mark: half its width
LABEL_MOST = 24  # characters of a lane's name that have room
LANES_MOST = 16
NO_TIME_X, NO_TIME_ROW = RIGHT + 30, 4  # where marks without a time are, so many a row
NAMES_ROOM = 130.0  # pixels for "job began" and "job ended" side by side
CLOSE_SHARE = 0.15  # of the axis: what is closer together gets a picture of its own
GAP_SHARE = 0.1
#: What the shapes mean, in the order of a failure.
ROLES = {
    "initiating": "the cause",
    "cascade": "followed from it",
    "teardown": "the end of the job",
}

Moment = dict[str, Any]


class Numbered(NamedTuple):
    """A line of the timeline and its number there."""

    number: int
    moment: Moment


class Lane(NamedTuple):
    """What happened at one place."""

    label: str
    moments: list[Numbered]


def spans(answer: Moment) -> tuple[Axis | None, Axis | None]:
    """Make the axes of the timeline and of the charts; None where no time is known.

    It is one axis, unless something happened so far from what Prometheus was asked for
    that a chart would be a dot.
    """
    events = dated_times(answer["timeline"])
    values = [
        one["samples"][place][0]
        for one in answer["series"]
        if one["samples"]
        for place in (0, -1)
    ]
    run = answer["run"] or {"start": None, "end": None}
    ends = [t for t in (run["start"], run["end"]) if t is not None]
    if values and near(values, events) == events:
        events = values = values + events
    return axis_of(events, ends), axis_of(values, ends)


def axis_of(times: list[float], ends: list[float]) -> Axis | None:
    """Make an axis with the job's begin and end on it if they are not far off."""
    return axes.around(times + near(times, ends), LEFT, RIGHT)


def near(times: list[float], others: list[float]) -> list[float]:
    """Those of the others that are not far off: half of the times' length."""
    if not times:
        return others
    room = (max(times) - min(times)) / 2
    return [t for t in others if min(times) - room <= t <= max(times) + room]


def dated_times(timeline: Sequence[Moment]) -> list[float]:
    """Times of a timeline that are known."""
    return [one["time"] for one in timeline if one["time"] is not None]


def overview(answer: Moment, axis: Axis | None) -> Picture | None:
    """The whole timeline; None if there is none."""
    numbered = [Numbered(n, one) for n, one in enumerate(answer["timeline"], 1)]
    if not numbered:
        return None
    run = answer["run"] or {"start": None, "end": None}
    return drawn("timeline", "When and where it happened", numbered, axis, run)


def close_up(answer: Moment, axis: Axis | None) -> Picture | None:
    """The moments around the cause, if they are too close together to be told apart."""
    if axis is None:
        return None
    all_of_them = enumerate(answer["timeline"], 1)
    numbered = [Numbered(n, m) for n, m in all_of_them if m["time"] is not None]
    close = neighbours(numbered, (axis.end - axis.begin) * GAP_SHARE)
    times = [one.moment["time"] for one in close]
    length = max(times) - min(times) if times else 0.0
    if not 0 < length <= (axis.end - axis.begin) * CLOSE_SHARE:
        return None
    closer = axes.around(times, LEFT, RIGHT, length * 1.1)
    run = {"start": (answer["run"] or {}).get("start"), "end": None}
    return drawn("closeup", "The same, close up", close, closer, run)


def neighbours(numbered: Sequence[Numbered], gap: float) -> list[Numbered]:
    """The first initiating moment and what follows on it without a larger gap."""
    ordered = sorted(numbered, key=lambda one: one.moment["time"])
    made: list[Numbered] = []
    for one in ordered:
        far = bool(made) and one.moment["time"] - made[-1].moment["time"] > gap
        begun = any(m.moment["role"] == "initiating" for m in made)
        if far and begun:
            break
        made = [one] if far else [*made, one]
    begun = any(m.moment["role"] == "initiating" for m in made)
    return made if begun else []


def lanes(numbered: Sequence[Numbered]) -> list[Lane]:
    """A lane for each rank or source; of too many one for each node, then the rest."""
    made = grouped(numbered, by_node=False)
    if len(made) > LANES_MOST:
        made = grouped(numbered, by_node=True)
    if len(made) > LANES_MOST:
        rest = made[LANES_MOST - 1 :]
        together = [one for lane in rest for one in lane.moments]
        other = Lane(f"{len(rest)} other places", together)
        made = [*made[: LANES_MOST - 1], other]
    return made


def grouped(numbered: Sequence[Numbered], *, by_node: bool) -> list[Lane]:
    """Moments by where they happened, in the order of their first one."""
    made: dict[str, list[Numbered]] = {}
    for one in numbered:
        alone = by_node or one.moment["rank"] is None
        where = one.moment["node"] if alone else ""
        made.setdefault(where or one.moment["who"], []).append(one)
    return [Lane(label, moments) for label, moments in made.items()]


def drawn(
    name: str, title: str, numbered: list[Numbered], axis: Axis | None, run: Moment
) -> Picture:
    """One picture of these moments."""
    marks: list[Mark] = []
    y = TOP
    for place, lane in enumerate(lanes(numbered)):
        more, height = lane_marks(lane, axis, y)
        if place % 2 == 0:
            band = svg.rect(0, y, WIDTH, height, "band")
            marks.append(band)
        marks += more
        y += height
    under = axes.drawn(axis, TOP, y, run["start"]) if axis else []
    under += run_marks(axis, run, y)
    if any(one.moment["time"] is None for one in numbered):
        under.append(svg.text(NO_TIME_X - SIZE, TOP - 8, "time not known", "tick weak"))
    bands = [one for one in marks if one.attributes.get("class") == "band"]
    above = [one for one in marks if one.attributes.get("class") != "band"]
    height = y + (40 if run["start"] is not None else 26)
    every = (*bands, *under, *legend(), *above)
    return svg.Picture(name, WIDTH, height, title, told(numbered), every)


def lane_marks(lane: Lane, axis: Axis | None, y: float) -> tuple[list[Mark], float]:
    """Marks of one lane, and its height: as many rows as marks would overlap."""
    label = shown(lane.label)
    made = [svg.text(6, y + PAD + ROW / 2 + 4, cut(label, LABEL_MOST), "lane")]
    ends: list[float] = []  # of each row: where its last mark ends
    lost = 0
    for one in lane.moments:
        time = one.moment["time"]
        if time is None or axis is None:
            row, x = lost // NO_TIME_ROW, NO_TIME_X + lost % NO_TIME_ROW * 2.2 * SIZE
            lost += 1
        else:
            x = axis.x(time)
            row = next((n for n, end in enumerate(ends) if end <= x), len(ends))
            ends[row : row + 1] = [x + 2.2 * SIZE]
        made += moment_marks(one, x, y + PAD + (row + 0.5) * ROW)
    rows = max(len(ends), -(-lost // NO_TIME_ROW), 1)
    return made, rows * ROW + 2 * PAD


def moment_marks(one: Numbered, x: float, y: float) -> list[Mark]:
    """Shape and number of a moment; the tip is what it says."""
    role = one.moment["role"]
    tip = f"{one.number}. {sentence(one.moment)}"
    size = SIZE + 2 if role == "initiating" else SIZE
    return [
        svg.shape(role, x, y, size, shown(tip, 300)),
        svg.text(x, y + 4, str(one.number), f"digit {role_word(role)}", "middle"),
    ]


def role_word(role: str) -> str:
    """Make a role a class: our own word, whatever the answer says."""
    return role if role in ROLES else "teardown"


def sentence(moment: Moment) -> str:
    """Time, role, place and line of a moment."""
    when = utc(moment["time"], "%H:%M:%S UTC") or "time not known"
    what = ROLES.get(moment["role"], moment["role"])
    return f"{when}, {what}, {moment['who']}: {moment['what']}"


def run_marks(axis: Axis | None, run: Moment, bottom: float) -> list[Mark]:
    """Lines where the job began and ended, if that is on the axis."""
    names = {"start": "job began", "end": "job ended"}
    if axis is None:
        return []
    places = {key: axis.x(run[key]) for key in names if axis.has(run[key])}
    inside = len(places) < len(names) or places["end"] - places["start"] > NAMES_ROOM
    made: list[Mark] = []
    for key, x in places.items():
        right = (key == "start") is inside
        made.append(svg.line(x, TOP - 12, x, bottom, "border"))
        anchor = "start" if right else "end"
        at = x + 4 if right else x - 4
        made.append(svg.text(at, TOP - 5, names[key], "tick", anchor))
    return made


def legend() -> list[Mark]:
    """What the shapes mean."""
    made: list[Mark] = []
    x = LEFT
    for role, said in ROLES.items():
        made.append(svg.shape(role, x + 8, 9, 7))
        made.append(svg.text(x + 20, 13, said, "tick"))
        x += 34 + 7 * len(said)
    return made


def told(numbered: Sequence[Numbered]) -> str:
    """Say in words what the picture shows."""
    rows = plural(len(lanes(numbered)), "lane")
    counted = f"{plural(len(numbered), 'event')} in {rows}"
    first = next((o for o in numbered if o.moment["role"] == "initiating"), None)
    cause = "none of them is the cause itself"
    if first is not None:
        said = shown(sentence(first.moment), 300)
        cause = f"the cause is number {first.number}: {said}"
    return f"{counted}; {cause}. The list below has every number."
