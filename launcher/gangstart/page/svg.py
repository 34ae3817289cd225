"""Pictures as data: marks with numbers, and texts that the template escapes. Pure.

An attribute is a number or a word of this code, never foreign text. Colours are in
style.css by class, so that a picture follows the reader's light or dark mode; whatever
a colour says, a shape or a text says too.
"""

from __future__ import annotations

from typing import NamedTuple

Value = str | float


class Mark(NamedTuple):
    """One element of a picture."""

    tag: str
    attributes: dict[str, Value]
    text: str = ""  # what is written
    tip: str = ""  # what a pointer over it, or a screen reader, gets


class Picture(NamedTuple):
    """A picture with its name and what it shows in words."""

    name: str  # an id on the page: our own word
    width: float
    height: float
    title: str
    says: str
    marks: tuple[Mark, ...]


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Mark:
    """Draw a straight line."""
    places = {"x1": r(x1), "y1": r(y1), "x2": r(x2), "y2": r(y2)}
    return Mark("line", {**places, "class": kind})


def rect(
    x: float, y: float, width: float, height: float, kind: str, tip: str = ""
) -> Mark:
    """Draw a rectangle."""
    places = {"x": r(x), "y": r(y), "width": r(max(width, 0)), "height": r(height)}
    return Mark("rect", {**places, "class": kind}, tip=tip)


def text(x: float, y: float, said: str, kind: str = "", anchor: str = "start") -> Mark:
    """Write a text whose baseline is at y."""
    at: dict[str, Value] = {"x": r(x), "y": r(y), "text-anchor": anchor}
    return Mark("text", at | ({"class": kind} if kind else {}), said)


def path(steps: str, kind: str, tip: str = "") -> Mark:
    """Draw a path."""
    return Mark("path", {"d": steps, "class": kind}, tip=tip)


def polyline(points: list[tuple[float, float]], kind: str, tip: str = "") -> Mark:
    """Draw straight lines from point to point; one point is a short dash."""
    if len(points) == 1:
        (x, y), points = points[0], []
        points = [(x - 2, y), (x + 2, y)]
    steps = " ".join(f"{r(x)},{r(y)}" for x, y in points)
    return Mark("polyline", {"points": steps, "class": kind}, tip=tip)


def shape(role: str, x: float, y: float, size: float, tip: str = "") -> Mark:
    """Mark a moment: a diamond began it, a circle followed, a square is the end."""
    a, b = r(size), r(size * 0.85)
    steps = {
        "initiating": f"M{r(x)} {r(y - a)}l{a} {a}l-{a} {a}l-{a} -{a}z",
        "cascade": f"M{r(x - b)} {r(y)}a{b} {b} 0 1 0 {r(2 * b)} 0"
        f"a{b} {b} 0 1 0 -{r(2 * b)} 0z",
    }
    square = f"M{r(x - b)} {r(y - b)}h{r(2 * b)}v{r(2 * b)}h-{r(2 * b)}z"
    return path(steps.get(role, square), f"mark {role}", tip)


def r(value: float) -> float:
    """Round: a tenth of a pixel is enough, and a page stays small."""
    return round(value, 1)
