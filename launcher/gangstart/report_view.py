"""A start report for people: the outcome, a table, a timeline, and what was chosen.

Every text of a report may come from a user of the cluster: control characters are
shown as "?", and nothing is read as markup. On a terminal there is colour and the
table fits the width; in a pipe it is the same text, plain, one line per row.
"""

from __future__ import annotations

import unicodedata
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from pathlib import Path

FEW_NODES = 40  # as many are shown one by one
SLOWEST = 20
NOT_READY = 200
PIPE_WIDTH = 10_000
TIMELINE_WIDTH = 50

#: Categories of characters that do not belong into a line: controls, formats such as
#: the reversal of direction, surrogates, line and paragraph separators.
UNFIT = {"Cc", "Cf", "Cs", "Zl", "Zp"}
COLOUR = {"released": "green", "refused": "red", "cancelled": "yellow"}
WARNING_TEXT = {
    "UNEVEN_TASKS": "nodes have different numbers of tasks",
    "GPU_BINDING": "a task sees fewer GPUs than its LOCAL_RANK needs",
    "NETWORK_NAMESPACE": "a task is in a network namespace that is not its node's",
}


class Marks(NamedTuple):
    """Characters of the timeline."""

    empty: str
    arriving: str
    missing: str
    connected: str


FINE = Marks("·", "━", "?", "│")
PLAIN = Marks(".", "=", "?", "|")


def clean(value: object) -> str:
    """Text of a report, safe to show."""
    return "".join(
        "?" if unicodedata.category(char) in UNFIT else char for char in str(value)
    )


def seconds(value: float | None) -> str:
    """A time of the report."""
    return "-" if value is None else f"{value:.2f} s"


def arrivals(node: dict[str, Any]) -> list[float]:
    """When the tasks of a node arrived, those that did."""
    return [
        task["arrived_s"] for task in node["tasks"] if task["arrived_s"] is not None
    ]


def last_arrival(node: dict[str, Any]) -> float:
    """When a node was complete, or -1."""
    return max(arrivals(node), default=-1.0)


def is_ready(node: dict[str, Any]) -> bool:
    """Whether the node itself was no obstacle."""
    return bool(node["phase"] == "ready")


def show(report: dict[str, Any], path: Path, remark: str, *, every_node: bool) -> None:
    """Print the report on standard output."""
    console = Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console = Console(markup=False, emoji=False, highlight=False, width=PIPE_WIDTH)
    nodes, left_out = selected(report["nodes"], every_node=every_node)
    with console.capture() as captured:
        for line in outcome(report):
            console.print(line)
        console.print(node_table(nodes))
        for line in [*left_out, *timeline(report, nodes, marks_for(console))]:
            console.print(line, soft_wrap=True)
        for line in facts(report, path, remark):
            console.print(line, soft_wrap=True)
    lines = captured.get().splitlines()
    shown = "\n".join(line.rstrip() for line in lines) + "\n"
    console.file.write(
        shown.encode(console.encoding, errors="replace").decode(console.encoding)
    )


def marks_for(console: Console) -> Marks:
    """Characters that the output can show."""
    return FINE if console.encoding.lower().startswith("utf") else PLAIN


def outcome(report: dict[str, Any]) -> list[Text]:
    """What srun said; for a step that it said nothing of, one sentence."""
    name = clean(report["outcome"])
    unsaid = (
        f"gang-start: step {clean(report['step']['name'])} was {name} after "
        f"{seconds(report['elapsed_s'])}: {report['arrived']['tasks']} of "
        f"{report['expected']['tasks']} tasks had arrived"
    )
    said = [clean(line) for line in report["message"]] or [unsaid]
    first = Text(said[0], style=f"bold {COLOUR.get(name, '')}".strip())
    return [first, *map(Text, said[1:]), Text("")]


def selected(
    nodes: list[dict[str, Any]], *, every_node: bool
) -> tuple[list[dict[str, Any]], list[Text]]:
    """The nodes to show, and how many are left out."""
    if every_node or len(nodes) <= FEW_NODES:
        return nodes, []
    waiting = [node for node in nodes if not is_ready(node)]
    ready = sorted(filter(is_ready, nodes), key=last_arrival, reverse=True)
    shown = [*waiting[:NOT_READY], *ready[:SLOWEST]]
    kinds = [
        (max(len(waiting) - NOT_READY, 0), "not ready"),
        (max(len(ready) - SLOWEST, 0), "ready before these"),
    ]
    counted = ", ".join(f"{count} {kind}" for count, kind in kinds if count)
    return shown, [Text(f"not shown: {counted} (--all shows every node)")]


def node_table(nodes: list[dict[str, Any]]) -> Table:
    """One row per node."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("node", "ranks", "phase", "connected", "last task", "detail"):
        right = name in {"connected", "last task"}
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for node in nodes:
        came = arrivals(node)
        table.add_row(
            Text(clean(node["name"]) or "?"),
            Text(clean(node["ranks"])),
            Text(clean(node["phase"]), style="green" if is_ready(node) else "red"),
            Text(seconds(node["connected_s"])),
            Text(seconds(max(came)) if came else "-"),
            Text(detail(node)),
        )
    return table


def detail(node: dict[str, Any]) -> str:
    """What was wrong with a node, and how its tasks ended."""
    endings = [
        f"rank {task['rank']}: {clean(task['ended'])}"
        for task in node["tasks"]
        if "ended" in task
    ]
    told = clean(node["detail"])
    return "; ".join(
        [*([told] if told else []), *(e for e in endings if e not in told)]
    )


def timeline(
    report: dict[str, Any], nodes: list[dict[str, Any]], marks: Marks
) -> list[Text]:
    """Arrivals of each node between the moment srun began to wait and the decision."""
    end = max([report["elapsed_s"] or 0.0, *map(last_arrival, nodes)])
    if end <= 0 or not nodes:
        return []
    names = [clean(node["name"]) or "?" for node in nodes]
    width = max(map(len, names))
    title = (
        f"arrivals from 0 to {end:.2f} s ({marks.connected} connected, "
        f"{marks.arriving} first to last task, {marks.missing} missing)"
    )
    rows = [
        Text(f"{name:<{width}}  {track(node, end, marks)}")
        for name, node in zip(names, nodes, strict=True)
    ]
    return [Text(""), Text(title, style="bold"), *rows]


def track(node: dict[str, Any], end: float, marks: Marks) -> str:
    """One line of the timeline."""

    def column(when: float) -> int:
        return min(max(int(when / end * TIMELINE_WIDTH), 0), TIMELINE_WIDTH - 1)

    cells = [marks.empty] * TIMELINE_WIDTH
    came = arrivals(node)
    if len(came) < len(node["tasks"]):
        since = column(max([0.0, *came, node["connected_s"] or 0.0]))
        cells[since:] = [marks.missing] * (TIMELINE_WIDTH - since)
    if node["connected_s"] is not None:
        cells[column(node["connected_s"])] = marks.connected
    if came:
        first, last = column(min(came)), column(max(came))
        cells[first : last + 1] = [marks.arriving] * (last - first + 1)
    return "".join(cells)


def facts(report: dict[str, Any], path: Path, remark: str) -> list[Text]:
    """What is to know beside the nodes, one line each."""
    rows = fact_rows(report, str(path), remark)
    return [Text(""), *(Text(f"{name:<10} {clean(value)}") for name, value in rows)]


def fact_rows(report: dict[str, Any], path: str, remark: str) -> list[tuple[str, str]]:
    """What is to know beside the nodes: names and values, not cleaned."""
    step, versions = report["step"], report["versions"]
    written_by = (
        f"plugin {versions['plugin']}, Slurm {versions['slurm']}, "
        f"protocol {versions['wire']}, report {report['version']}"
    )
    rows = [
        (
            "step",
            f"{step['name']} on cluster {step['cluster']}, user {step['user_id']}",
        ),
        ("decided", f"{moment(report['decided_at'])}, srun on {step['submit_host']}"),
        *master(report["master"]),
        *(("kept", f"{name}, which you had set") for name in report["kept_from_user"]),
        *(("warning", WARNING_TEXT.get(w, w)) for w in report["warnings"]),
        ("asked for", report["spec"]),
        ("versions", written_by),
        ("report", path),
    ]
    if report["stale_arrivals"]:
        count = report["stale_arrivals"]
        rows.append(("ignored", f"{count} connections of other steps or earlier runs"))
    if not report["complete"]:
        rows.append(("note", "one node's own copy: the other nodes are not in it"))
    if remark:
        rows.append(("note", remark))
    return rows


def master(chosen: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Where rank 0 listens, why there, and what was tried before."""
    if chosen is None:
        return [("master", "rank 0's node made no offer")]
    address, tried = chosen["address"], chosen["tried"]
    shown = f"[{address}]" if ":" in address else address
    where = f"on {chosen['node']}"
    if not chosen["proven"]:
        users = chosen["address_from"] == "user"
        where = "(the user's, not proven)" if users else f"{where} (not for rank 0)"
    rows = [("master", f"{shown}:{chosen['port']} {where}")]
    if tried:
        best = tried[-1]
        same = "" if best["address"] == address else f" {best['address']}"
        rows.append(("chosen", f"{best['interface']}{same}: {best['why']}"))
    rows += [
        (
            "not used",
            f"{one['address']} ({one['interface']}): not every node reached it",
        )
        for one in tried[:-1]
    ]
    return rows


def moment(when: float | None) -> str:
    """Local date and time, with the zone."""
    try:
        utc = datetime.fromtimestamp(when or 0, tz=timezone.utc)
    except (ValueError, OverflowError, OSError):
        return f"{when} s after 1970"
    return utc.astimezone().isoformat(sep=" ", timespec="seconds")
