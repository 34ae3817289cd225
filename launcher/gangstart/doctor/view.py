"""The outcome for people: one table, the worst first, then one line of advice each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from gangstart.check import view
from gangstart.check.result import worst

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from gangstart.check.result import Finding
    from gangstart.doctor.scene import Scene

COLUMNS = ("what", "verdict", "where", "reason")


def show(scene: Scene, found: Sequence[Finding]) -> None:
    """Print on standard output."""
    view.print_safely(lambda console: draw(console, scene, found))


def draw(console: Console, scene: Scene, found: Sequence[Finding]) -> None:
    """Draw heading, table and advice."""
    verdict = worst(one.verdict for one in found)
    asked = f", {len(scene.asked)} of {len(scene.nodes)} nodes" if scene.nodes else ""
    heading = f"{scene.here.node}{asked}: {verdict}"
    console.print(Text(heading, style=f"bold {view.COLOUR[verdict]}"))
    console.print(table(found))
    wrong = [one for one in found if one.verdict != "ok"]
    advice = {one.check: one.action for one in wrong}
    for check, action in advice.items():
        console.print(Text(f"{check}: {action}"), soft_wrap=True)


def table(found: Sequence[Finding]) -> Table:
    """One row per finding."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in COLUMNS:
        made.add_column(name, overflow="fold")
    for one in found:
        style = view.COLOUR[one.verdict]
        made.add_row(
            Text(one.check),
            Text(one.verdict, style=style),
            Text(one.subject or "-"),
            Text(one.reason),
        )
    return made
