"""Findings of one event of a node check, as docs/check.schema.json has them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gangstart.history.start import TOLD, Hit, hits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def hits_of(event: Mapping[str, Any]) -> list[Hit] | None:
    """What an event found; None if nothing could be looked at: that is no clean look.

    The hook's event has the record of the GPUs itself as ``gpu``, that of
    ``gangstart check`` has it inside, as ``gpu.event``.
    """
    if event.get("verdict") not in TOLD:
        return None
    return [*gpu_hits(event.get("gpu")), *hits(event.get("findings")), *changes(event)]


def gpu_hits(told: object) -> Iterator[Hit]:
    """Findings on the GPUs."""
    if not isinstance(told, dict):
        return
    inner = told.get("event")
    yield from hits((inner if isinstance(inner, dict) else told).get("findings"))


def changes(event: Mapping[str, Any]) -> Iterator[Hit]:
    """What a job changed on the GPUs."""
    told = event.get("differences")
    found = told.get("found") if isinstance(told, dict) else None
    if not isinstance(found, list):
        return
    as_findings = [
        {
            "check": one.get("reading"),
            "value": one.get("after"),
            "verdict": one.get("verdict"),
            "reason": one.get("reason"),
        }
        for one in found
        if isinstance(one, dict)
    ]
    yield from hits(as_findings)
