"""What a look at a node's GPUs answers: plain data, without the C core behind it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Health:
    """What a look found; ``event`` is the record of docs/health.schema.json."""

    verdict: str  # ok | unknown | warn | fail
    drain: bool  # the node should take no further job
    none: bool  # the node has no GPU
    sentence: str  # all of it in one line
    event: dict[str, Any] = field(default_factory=dict)
