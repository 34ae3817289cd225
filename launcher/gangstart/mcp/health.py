"""The tool about nodes: what was recorded of them with a job, and this one as it is.

The look at this machine is ``gangstart check --json`` in a process of its own: it
forks, which a process with threads should not, and it changes nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gangstart import job as environment
from gangstart.check.result import VERDICTS
from gangstart.errors import GangstartError
from gangstart.mcp import schemas
from gangstart.mcp.call import Answer, need_job, sources
from gangstart.triage.model import Outcome, SourceState
from gangstart.triage.source import archive, ask, bounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gangstart.mcp.call import Call
    from gangstart.triage.model import Json, NodeState
    from gangstart.triage.source.archive import CheckEvent

SCHEMA, VERSION = "gangstart.node_health", 1
CHECKS = 20
SHARE = 0.8  # of the deadline, for the check itself
CHECK_S = (1.0, 3600.0)  # what the verb takes


def node_health(call: Call) -> Answer:
    """Give what is known of the health of a job's nodes, or of this machine."""
    job = call.given.get("job")
    wanted: Sequence[str] = call.given.get("nodes", ())
    told, kept = ask.Told(), archive.Kept()
    if job is not None:
        told = call.told()
        kept, state = archive.read(number(call, told), call.site.places)
        told.states.append(state)
        if not kept.events and not kept.reports:
            need_job(job, told)
    now = None
    if call.given.get("now", job is None):
        now, state = this_machine(call)
        told.states.append(state)
    events, broken = fitting(kept.events, wanted)
    if broken:
        why = f"{broken} records do not follow docs/check.schema.json"
        told.states.append(SourceState("archive", Outcome.UNREACHABLE, why))
    most = call.given.get("most", CHECKS)
    return Answer(
        {
            "schema": SCHEMA,
            "version": VERSION,
            "job": job,
            "checks": [record(one) for one in events[:most]],
            "left_out": max(len(events) - most, 0),
            "now": now,
            "nodes": [
                node(one)
                for one in told.nodes.values()
                if not wanted or one.name in wanted
            ],
            "sources": sources(told.states),
        }
    )


def number(call: Call, told: ask.Told) -> int:
    """The number under which the job's records are kept."""
    if told.records:
        return told.records[-1].number
    return call.asked().number


def fitting(
    events: Sequence[CheckEvent], wanted: Sequence[str]
) -> tuple[list[CheckEvent], int]:
    """Events of these nodes, the worst and newest first; how many are broken."""
    meant = [one for one in events if not wanted or one.node in wanted]
    fit = [one for one in meant if schemas.is_check(one.told)]
    return sorted(fit, key=rank), len(meant) - len(fit)


def rank(one: CheckEvent) -> tuple[int, float]:
    """What orders records."""
    verdict = one.told.get("verdict")
    known = VERDICTS.index(verdict) if verdict in VERDICTS else 0
    return -known, -float(one.told.get("time") or 0.0)


def record(one: CheckEvent) -> Json:
    """One record and where it is."""
    place = {"source": str(one.path), "line": one.line}
    return {"node": one.node, "place": place, "event": dict(one.told)}


def node(one: NodeState) -> Json:
    """A node as Slurm sees it now."""
    return {
        "name": one.name,
        "state": one.state,
        "reason": one.reason,
        "reason_time": one.reason_time,
        "boot_time": one.boot_time,
    }


def this_machine(call: Call) -> tuple[Json, SourceState]:
    """Check this machine.

    Raises:
        GangstartError: it could not be checked.

    """
    low, high = CHECK_S
    spool = ["--spool", call.site.spool] if call.site.spool else []
    deadline = min(max(call.left_s * SHARE, low), high)
    argv = ["check", "--json", "--deadline", f"{deadline:.1f}", *spool]
    ran = bounded.run(
        environment.module_argv("gangstart.cli", *argv),
        deadline_s=max(call.left_s, low),
        env=environment.child_env(),
    )
    if ran.why or not ran.out:
        said = " ".join(ran.err.split())[:300].removeprefix("gangstart: ")
        raise GangstartError(f"this machine was not checked: {ran.why or said}")
    told: Json = json.loads(ran.out)
    where = f"{told['node']}, checked now"
    return told, SourceState("check", Outcome.USED, where, told["took_ms"] / 1000)
