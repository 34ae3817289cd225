"""The page of a start report. Pure.

Of a large step the nodes that were not ready and the slowest are shown, the others are
counted; --all shows every node.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from gangstart.check.gpupart import rows
from gangstart.page import arrival, render
from gangstart.page.text import utc
from gangstart.report_view import (
    arrivals,
    detail,
    fact_rows,
    is_ready,
    last_arrival,
    outcome,
    selected,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

Report = dict[str, Any]
Node = dict[str, Any]

VERDICTS = ("fail", "warn", "unknown")  # worst first; ok is counted only
#: Shown if they are there: a report is read without them too.
UNCHECKED = ("reason", "exit_code", "missing_ranks", "blamed_nodes")
FINDINGS_MOST = 200
ODD_MOST = 50
TABLE_MOST = 5000  # nodes with --all
LINES_MOST = 60  # of what srun said
NEXT = re.compile(r"^\s*next: (.*)$")


class Finding(NamedTuple):
    """Something about a GPU or a node."""

    verdict: str
    node: str
    gpu: str
    reason: str
    value: str = ""
    limit: str = ""
    action: str = ""
    source: str = ""


def report_page(report: Report, path: Path, remark: str, *, every_node: bool) -> str:
    """Make the page of a report that ``gangstart.report.parse`` has checked."""
    nodes, left_out = selected(report["nodes"], every_node=every_node)
    axis, late = arrival.axis_of(report), arrival.fence(report["nodes"])
    said = [str(line) for line in outcome(report)][:-1]
    found = findings(report["nodes"])
    values = {
        "report": report,
        "step": report["step"]["name"],
        "outcome": report["outcome"],
        **{name: text(report.get(name)) for name in UNCHECKED},
        "first": said[0],
        "said": [line for line in said[1:LINES_MOST] if not NEXT.match(line)],
        "next": commands(said),
        "curve": arrival.curve(report, axis),
        "lanes": arrival.lanes(report, nodes, axis, late),
        "lanes_left_out": max(len(nodes) - arrival.LANES_MOST, 0),
        "left_out": [str(line) for line in left_out],
        "zero": zero(report),
        "late": late_nodes(report["nodes"], late),
        "findings": found[:FINDINGS_MOST],
        "findings_left_out": max(len(found) - FINDINGS_MOST, 0),
        "health": health_counts(report),
        "facts": fact_rows(report, str(path), remark),
        "table": [row(node, late) for node in nodes[:TABLE_MOST]],
        "table_left_out": max(len(nodes) - TABLE_MOST, 0),
    }
    return render.page("report.html", values)


def zero(report: Report) -> str:
    """When srun began to wait, in UTC; nothing if there was no decision."""
    decided, elapsed = report["decided_at"], report["elapsed_s"]
    return "" if decided is None or elapsed is None else utc(decided - elapsed)


def commands(said: Sequence[str]) -> list[str]:
    """What srun advised to type."""
    found = (NEXT.match(line) for line in said[:LINES_MOST])
    return [part for one in found if one for part in one[1].split(" · ")]


def late_nodes(nodes: Sequence[Node], late: float | None) -> list[str]:
    """Name those that were complete long after the others, the last first."""
    behind = [n for n in nodes if late is not None and last_arrival(n) > late]
    ordered = sorted(behind, key=last_arrival, reverse=True)
    return [
        f"{node['name'] or '?'} ({last_arrival(node):.2f} s)" for node in ordered[:20]
    ]


def row(node: Node, late: float | None) -> dict[str, Any]:
    """One line of the table of nodes."""
    last = last_arrival(node)
    return {
        "name": node["name"] or "?",
        "ranks": node["ranks"],
        "phase": node["phase"],
        "ready": is_ready(node),
        "connected": seconds(node["connected_s"]),
        "last": seconds(last if arrivals(node) else None),
        "late": late is not None and last > late,
        "missing": arrival.ranks_text(arrival.missing(node)),
        "address": text(node.get("address")),
        "clock": signed(node.get("clock_offset_s")),
        "health": text(part(node.get("health")).get("verdict")) or "not told",
        "detail": detail(node),
    }


def seconds(value: float | None) -> str:
    """A time, or nothing."""
    return "" if value is None else f"{value:.2f} s"


def signed(value: object) -> str:
    """How far a clock is off; nothing if it is not known."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool)
    return f"{value:+.3f} s" if known else ""


def part(value: object) -> dict[str, Any]:
    """An object of a part that is not checked; an empty one if it is none."""
    return value if isinstance(value, dict) else {}


def text(value: object) -> str:
    """A text of a part that is not checked; nothing if it is none."""
    return str(value) if isinstance(value, (str, int, float)) else ""


def findings(nodes: Sequence[Node]) -> list[Finding]:
    """What is wrong with nodes and their GPUs, worst first."""
    found = [one for node in nodes for one in node_findings(node)]
    return sorted(found, key=lambda one: VERDICTS.index(one.verdict))


def node_findings(node: Node) -> Iterator[Finding]:
    """Findings of one node; what its sentence says if its record is not understood."""
    health = node.get("health")
    if not isinstance(health, dict):
        return
    name, shared = node["name"] or "?", text(health.get("shared_gpu"))
    if shared:
        yield Finding("warn", name, "", shared)
    known = [
        one
        for one in rows(health.get("record"), "findings")
        if one.get("verdict") in VERDICTS
    ]
    for one in known:
        yield of_record(one, name)
    if not known and not shared and health.get("verdict") in VERDICTS:
        why = text(health.get("why")) or "no reason is told"
        yield Finding(health["verdict"], name, "", why)


def of_record(one: dict[str, Any], node: str) -> Finding:
    """Make a finding out of a node's record."""
    gpu = " ".join(filter(None, (text(one.get("gpu")), text(one.get("pci")))))
    rest = (text(one.get(k)) for k in ("reason", "value", "limit", "action", "source"))
    return Finding(one["verdict"], node, gpu, *rest)


def health_counts(report: Report) -> dict[str, Any]:
    """Count GPUs by verdict, and nodes that told nothing."""
    health = part(report.get("health"))
    gpus = part(health.get("gpus"))
    odd = health.get("odd")
    silent = sum(not isinstance(node.get("health"), dict) for node in report["nodes"])
    return {
        "mode": text(health.get("mode")),
        "verdict": text(health.get("verdict")),
        "gpus": [(text(gpus.get(v)), v) for v in ("ok", *VERDICTS) if gpus.get(v)],
        "silent": silent,
        "of": len(report["nodes"]),
        "odd": [text(one) for one in odd[:ODD_MOST]] if isinstance(odd, list) else [],
    }
