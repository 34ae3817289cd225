"""The tool about nodes across jobs: who is late or refused again and again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gangstart import history as nodes
from gangstart.errors import GangstartError
from gangstart.history.start import NAME
from gangstart.mcp.call import Answer

if TYPE_CHECKING:
    from gangstart.mcp.call import Call

SINCE = "30d"
MOST = 20


def history(call: Call) -> Answer:
    """Give nodes across jobs, as ``gangstart history --json``; the worst come first."""
    given = call.given
    names = given.get("nodes")
    wrong = next((one for one in names or () if not NAME.fullmatch(one)), None)
    if wrong is not None:
        raise GangstartError(f"history: {wrong[:60]!r} is not a node's name")
    now = time.time()
    since = nodes.moment(given.get("since", SINCE), now)
    until = nodes.moment(given["until"], now, "until") if "until" in given else None
    told = nodes.collect(
        call.site.places, names, since=since, until=until, deadline_s=call.left_s
    ).as_json()
    most, whole = given.get("most", MOST), len(told["nodes"])
    told["nodes"] = told["nodes"][:most]
    left = f"the worst {most} of {whole} nodes" if whole > most else ""
    return Answer(told, left)
