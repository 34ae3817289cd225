"""Node and reason of each drain in records, for ``slurm-conf/set-reason``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from gangstart.check.result import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
REASON_CHARS = 200


def lines(events: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """``NODE<tab>REASON``, of the newest drain of each node."""
    found: dict[str, str] = {}
    for event in events:
        node = str(event.get("node", ""))
        if event.get("event") != "check" or event.get("drain") is not True:
            continue
        if NODE_NAME.fullmatch(node):
            found[node] = clean(event.get("reason", ""), REASON_CHARS)
    for node, reason in found.items():
        yield f"{node}\tgangstart: {reason or 'no reason recorded'}"
