"""Nodes across jobs: who is late, who has starts refused, what was found on them.

    from gangstart import history, report_find
    places = report_find.places(None, None)
    told = history.collect(places, since=time.time() - 7 * 86400, deadline_s=10)
    for node in told.nodes: ...  # history.Node, the worst first
    told.as_json()  # docs/history.schema.json

How it is judged is in ``chance`` and ``judge``, and for people in docs/history.md.
"""

from __future__ import annotations

from gangstart.history.assemble import Options, collect
from gangstart.history.model import (
    History,
    Lateness,
    Node,
    Reading,
    Refusals,
    Seen,
    Share,
)
from gangstart.history.when import moment

__all__ = [
    "History",
    "Lateness",
    "Node",
    "Options",
    "Reading",
    "Refusals",
    "Seen",
    "Share",
    "collect",
    "moment",
]
