"""Figures: what was measured, what was wanted, and how both are shown and kept."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Figure:
    """One row. A goal is an upper limit; None: shown for comparison only."""

    name: str
    goal: float | None
    value: float
    unit: str

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal."""
        return None if self.goal is None else self.value <= self.goal


class Figures:
    """All rows so far, each shown as soon as it is known."""

    def __init__(self) -> None:
        """Begin with none."""
        self.rows: list[Figure] = []

    def add(
        self, name: str, value: float, unit: str, goal: float | None = None
    ) -> None:
        """Add a row and show it."""
        row = Figure(name, goal, round(value, 4), unit)
        self.rows.append(row)
        print(line(row), flush=True)

    def spread(
        self, name: str, values: Sequence[float], unit: str, goal: float | None = None
    ) -> None:
        """Add the median of some values, which the goal is for, and the largest."""
        self.add(name, median(values), unit, goal)
        self.add(f"{name}, largest of {len(values)}", max(values), unit)

    def write(self, path: Path) -> None:
        """Keep the rows as JSON."""
        rows = [asdict(row) | {"met": row.met} for row in self.rows]
        path.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")


def line(row: Figure) -> str:
    """One row as text."""
    goal = "" if row.goal is None else f"<= {row.goal:g}"
    met = {True: "met", False: "MISSED", None: ""}[row.met]
    return f"{row.name:<62} {row.value:>10.4g} {row.unit:<8} {goal:<10} {met}"


def heading(text: str) -> None:
    """Say what is measured next."""
    print(f"\n== {text}", flush=True)


def note(text: str) -> None:
    """Say what a reader of the table must know."""
    print(f"   {text}", flush=True)


def fail(text: str) -> None:
    """End the bench: something broke, so there is nothing to compare."""
    sys.exit(f"bench: {text}")
