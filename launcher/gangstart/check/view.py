"""A check for people: one row per GPU and per finding, worst first, then the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gangstart.check.gpupart import rows
from gangstart.check.result import VERDICTS, clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

PIPE_WIDTH = 10_000
COLOUR = {"ok": "green", "unknown": "yellow", "warn": "yellow", "fail": "red"}
COLUMNS = ("what", "verdict", "reason", "value", "limit")

Event = dict[str, Any]
Row = tuple[str, str, str, str, str]


def show(event: Event) -> None:
    """Print the check on standard output."""
    print_safely(lambda console: draw(console, event))


def draw(console: Console, event: Event) -> None:
    """Draw heading, table and advice."""
    console.print(heading(event))
    if found := [*gpu_rows(event["gpu"]["event"]), *own_rows(event)]:
        console.print(table(found))
    for line in advice(event):
        console.print(Text(line), soft_wrap=True)


def print_safely(drawn: Callable[[Console], None]) -> None:
    """Print what is drawn, as wide as it is in a pipe, whatever the encoding lacks."""
    console = Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console = Console(markup=False, emoji=False, highlight=False, width=PIPE_WIDTH)
    with console.capture() as captured:
        drawn(console)
    shown = "".join(line.rstrip() + "\n" for line in captured.get().splitlines())
    console.file.write(
        shown.encode(console.encoding, errors="replace").decode(console.encoding)
    )


def heading(event: Event) -> Text:
    """Node, verdict, and what is said of the GPUs."""
    verdict = str(event["verdict"])
    drain = ", should be drained" if event["drain"] else ""
    text = f"{clean(event['node'])}: {verdict}{drain}: {event['gpu']['sentence']}"
    return Text(text, style=f"bold {COLOUR.get(verdict, '')}".strip())


def table(found: list[Row]) -> Table:
    """The rows, the worst first."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in COLUMNS:
        made.add_column(name, overflow="fold")
    for row in sorted(found, key=lambda one: -rank(one[1])):
        style = COLOUR.get(row[1], "")
        cells = [
            Text(text, style=style if i == 1 else "") for i, text in enumerate(row)
        ]
        made.add_row(*cells)
    return made


def rank(verdict: str) -> int:
    """How bad a verdict is."""
    return VERDICTS.index(verdict) if verdict in VERDICTS else 1


def gpu_rows(event: Event) -> Iterator[Row]:
    """Findings of each GPU; a GPU without one has a row of its own."""
    hits = [f for f in rows(event, "findings") if is_hit(f)]
    names = {g.get("index"): gpu_name(g) for g in rows(event, "gpus")}
    for finding in hits:
        yield as_row(names.get(finding.get("gpu"), "GPUs"), finding)
    for gpu in rows(event, "gpus"):
        if not any(f.get("gpu") == gpu.get("index") for f in hits):
            yield gpu_name(gpu), clean(gpu.get("verdict", "unknown")), "", "", ""


def is_hit(finding: Mapping[str, Any]) -> bool:
    """Whether a finding is worth a row."""
    return finding.get("kind") == "hit" and finding.get("verdict") != "ok"


def gpu_name(gpu: Mapping[str, Any]) -> str:
    """Index, model and address of a GPU."""
    said = [f"GPU {gpu.get('index', '?')}", gpu.get("name", ""), gpu.get("pci", "")]
    return " ".join(clean(part, 60) for part in said if part)


def own_rows(event: Event) -> Iterator[Row]:
    """Findings about the node."""
    for finding in rows(event, "findings"):
        yield as_row(clean(finding.get("check", "")), finding)


def as_row(what: str, finding: Mapping[str, Any]) -> Row:
    """A finding as a row."""
    verdict, reason, value, limit = (
        clean(finding.get(name, ""), 300)
        for name in ("verdict", "reason", "value", "limit")
    )
    return what, verdict, reason, value, limit


def advice(event: Event) -> Iterator[str]:
    """What to do, each thing once."""
    found = [*rows(event["gpu"]["event"], "findings"), *rows(event, "findings")]
    actions = [clean(f.get("action", ""), 300) for f in found if is_hit(f)]
    for action in dict.fromkeys(filter(None, actions)):
        yield f"next: {action}"
