"""The start report for triage: who ran where, whose clock is off, who is late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gangstart import core
from gangstart.errors import GangstartError
from gangstart.triage.model import Layout, Place
from gangstart.triage.ranks import expand
from gangstart.triage.source import checks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gangstart.triage.model import Event


def layout(told: Mapping[str, Any]) -> Layout:
    """Layout of a report that ``gangstart.report.parse`` has checked."""
    made = Layout(
        outcome=told["outcome"],
        reason=str(told.get("reason", "")),
        message="\n".join(told["message"]),
        missing_ranks=expand(str(told.get("missing_ranks", ""))),
        blamed_nodes=blamed(str(told.get("blamed_nodes", ""))),
    )
    if told["master"] is not None:
        made.master = f"{told['master']['node']}:{told['master']['port']}"
        if told["master"]["address"]:
            made.address_node[told["master"]["address"]] = told["master"]["node"]
    for node in told["nodes"]:
        add_node(made, node)
    return made


def health(told: Mapping[str, Any], path: Path) -> list[Event]:
    """What was found on the nodes' GPUs before the start."""
    made: list[Event] = []
    for node in told["nodes"]:
        found = node.get("health")
        if isinstance(found, dict):
            at = told["decided_at"]
            made += checks.started(node["name"], found, at, Place(str(path)))
    return made


def add_node(made: Layout, node: Mapping[str, Any]) -> None:
    """What a report says of one node."""
    name = node["name"]
    made.rank_node.update(dict.fromkeys(expand(node["ranks"]), name))
    address, offset = node.get("address"), node.get("clock_offset_s")
    if isinstance(address, str) and address:
        made.address_node[address] = name
    if isinstance(offset, (int, float)) and not isinstance(offset, bool):
        made.offset_s[name] = float(offset)
    arrived = [t["arrived_s"] for t in node["tasks"] if t["arrived_s"] is not None]
    if arrived:
        made.lateness_s[name] = max(arrived)


def blamed(text: str) -> tuple[str, ...]:
    """Nodes of a node list; the text itself if it is none."""
    try:
        return tuple(core.expand(text)) if text else ()
    except GangstartError:
        return (text,)
