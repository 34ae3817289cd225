"""The time axis of a picture: from seconds to places, and where its ticks are. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gangstart.page import svg
from gangstart.page.text import since_text, utc

if TYPE_CHECKING:
    from collections.abc import Callable

#: Distances of ticks that people count in: seconds, minutes, hours, days.
STEPS_S = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10800, 21600, 43200),
    *(86400, 172800, 604800, 2592000, 31536000),
)
TICKS_MOST = 8
DAY_S = 86400.0
MINUTE_S = 60.0
SHORT_S = 600.0  # up to here a time since the start is in seconds


@dataclass(frozen=True)
class Axis:
    """A stretch of time and the places it is drawn between."""

    begin: float  # seconds, of 1970 or of a start
    end: float
    left: float  # pixels
    right: float

    def x(self, time: float) -> float:
        """Place of a moment; what is outside is at the edge."""
        share = (time - self.begin) / (self.end - self.begin)
        return self.left + min(max(share, 0.0), 1.0) * (self.right - self.left)

    def has(self, time: float | None) -> bool:
        """Whether a moment is on the axis."""
        return time is not None and self.begin <= time <= self.end

    def ticks(self) -> list[float]:
        """Moments to write at, at most TICKS_MOST."""
        step = self.step()
        first = math.ceil(self.begin / step - 1e-9)
        last = math.floor(self.end / step + 1e-9)
        return [n * step for n in range(first, last + 1)][: TICKS_MOST + 1]

    def step(self) -> float:
        """Distance of the ticks in seconds."""
        least = (self.end - self.begin) / TICKS_MOST
        whole = math.ceil(least / STEPS_S[-1]) * STEPS_S[-1]
        return float(next((step for step in STEPS_S if step >= least), whole))


def around(
    times: list[float], left: float, right: float, least_s: float = 1.0
) -> Axis | None:
    """An axis with some room around these moments; None if there are none."""
    if not times:
        return None
    begin, end = min(times), max(times)
    room = max((end - begin) * 0.03, (least_s - (end - begin)) / 2, least_s * 0.05)
    return Axis(begin - room, end + room, left, right)


def clock(axis: Axis, time: float) -> str:
    """A tick in UTC, with the date where days are counted."""
    step = axis.step()
    if step >= DAY_S:
        return utc(time, "%Y-%m-%d")
    if axis.end - axis.begin > DAY_S:
        return utc(time, "%m-%d %H:%M")
    if step >= 1:
        return utc(time, "%H:%M:%S")
    return utc(time, "%H:%M:%S.%f")[:-3]


def since(seconds: float, step: float) -> str:
    """Name a tick by the time after a start: +12.5 s, in steps of minutes +0:15:00."""
    sign = "−" if seconds < 0 else "+"
    size = abs(seconds)
    if size < SHORT_S and step < MINUTE_S:
        return f"{sign}{size:.4g} s"
    return f"{sign}{since_text(size)}"


def drawn(
    axis: Axis, top: float, bottom: float, start: float | None = None
) -> list[svg.Mark]:
    """Ticks in UTC; below them the time since the job's start, if that is given."""
    made = ruled(axis, top, bottom, lambda tick: clock(axis, tick))
    made.append(svg.text(0, bottom + 17, day(axis), "tick weak"))
    if start is not None:
        for tick in axis.ticks():
            told = since(round(tick - start, 6), axis.step())
            x = axis.x(tick)
            made.append(svg.text(x, bottom + 31, told, "tick weak", "middle"))
        made.append(svg.text(0, bottom + 31, "since the job began", "tick weak"))
    return made


def ruled(
    axis: Axis, top: float, bottom: float, name: Callable[[float], str]
) -> list[svg.Mark]:
    """Draw ticks, their lines and their names."""
    made = [svg.line(axis.left, bottom, axis.right, bottom, "axis")]
    for tick in axis.ticks():
        x = axis.x(tick)
        made.append(svg.line(x, top, x, bottom + 4, "grid"))
        made.append(svg.text(x, bottom + 17, name(tick), "tick", "middle"))
    return made


def day(axis: Axis) -> str:
    """Name the day that an axis begins on."""
    return f"{utc(axis.begin, '%Y-%m-%d')} UTC"
