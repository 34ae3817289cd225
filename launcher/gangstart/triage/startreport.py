"""The start report for triage: who ran where, whose clock is off, who is late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gangstart.triage.gather import expand_ranks
from gangstart.triage.model import Layout

if TYPE_CHECKING:
    from collections.abc import Mapping


def layout(report: Mapping[str, Any]) -> Layout:
    """Layout of a report that ``gangstart.report.parse`` has checked."""
    made = Layout(
        outcome=report["outcome"],
        reason=str(report.get("reason", "")),
        message="\n".join(map(str, report["message"])),
        missing_ranks=expand_ranks(str(report.get("missing_ranks") or "")),
        blamed_nodes=tuple(map(str, report.get("blamed_nodes") or ())),
    )
    for node in report["nodes"]:
        name = node["name"]
        made.rank_node |= dict.fromkeys(expand_ranks(node["ranks"]), name)
        if isinstance(offset := node.get("clock_offset_s"), int | float):
            made.offset_s[name] = float(offset)
        if isinstance(address := node.get("address"), str) and address:
            made.address_node[address] = name
        times = [t["arrived_s"] for t in node["tasks"] if t["arrived_s"] is not None]
        if times:
            made.lateness_s[name] = float(max(times))
    master = report["master"] or {}
    port = master.get("port")
    if port is not None and 0 in made.rank_node:
        made.master = f"{made.rank_node[0]}:{port}"
    return made
