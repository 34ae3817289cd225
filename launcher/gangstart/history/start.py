"""One start as history needs it, from a start report; copies of one start are one.

What a report says was said by somebody's srun: names, numbers and texts are checked and
bounded here, and whatever does not fit makes the report a broken one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from gangstart import core
from gangstart.check.result import clean
from gangstart.errors import GangstartError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

#: As Slurm takes it for NodeName.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
CHECK = re.compile(r"[a-z][a-z0-9_]{0,39}")
NUMBER = re.compile(r"\d{1,5}")
FAULTS = {"xid", "sxid"}  # findings of these are told apart by the fault's number
FINDINGS_MOST = 64  # of one look
#: What ended jobs leave behind, and what others see of them: nothing of the node.
OF_JOBS = frozenset(
    {"process", "memory", "memory_held", "ghost", "dashboard", "clean_up"}
    | {f"leftover_{what}" for what in ("gpu", "process", "stuck", "port", "shm", "tmp")}
)
COUNTED = ("warn", "fail")
TOLD = ("ok", *COUNTED)  # no sets: what is looked up may be of any type


class Hit(NamedTuple):
    """A finding of one look."""

    check: str
    verdict: str
    reason: str


class Row(NamedTuple):
    """One node of a start."""

    ready: bool
    complete_s: float | None  # when its last task arrived


@dataclass(frozen=True)
class Start:
    """One start."""

    job: int
    step: str
    attempt: int
    at: float  # seconds since 1970
    cluster: str
    user: int
    outcome: str
    reason: str
    nodes: int  # of the step
    blamed: frozenset[str]
    rows: Mapping[str, Row]
    looks: Mapping[str, tuple[Hit, ...]] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether every node of the step is known."""
        return len(self.rows) == self.nodes

    @property
    def key(self) -> tuple[str, str, int, float]:
        """Tell starts apart: copies of one have the same."""
        return self.cluster, self.step, self.attempt, self.at


def start_of(told: Mapping[str, Any]) -> Start:
    """Read a report that ``gangstart.report.parse`` has checked.

    Raises GangstartError if a name or number in it cannot be.
    """
    step, name = told["step"], told["step"]["name"]
    job = name.partition(".")[0]
    if not job.isdecimal() or len(name) > len("4294967295.4294967295"):
        raise GangstartError(f"it is of step {clean(name, 40)!r}, which cannot be")
    if told["decided_at"] is None:
        raise GangstartError("it has no moment of a decision")
    restarts = step.get("restart_count")
    named = [node for node in told["nodes"] if node["name"]]  # others never came
    rows = dict(map(row_of, named))
    if len(rows) != len(named):
        raise GangstartError("it names a node twice")
    return Start(
        job=int(job),
        step=name,
        attempt=restarts if isinstance(restarts, int) else 0,
        at=float(told["decided_at"]),
        cluster=step["cluster"],
        user=step["user_id"],
        outcome=told["outcome"],
        reason=str(told.get("reason", "")),
        nodes=told["expected"]["nodes"],
        blamed=frozenset(expand(told.get("blamed_nodes", ""))),
        rows=rows,
        looks=dict(looks(named)),
    )


def row_of(node: Mapping[str, Any]) -> tuple[str, Row]:
    """Name and row of a node."""
    name = node["name"]
    if not NAME.fullmatch(name):
        raise GangstartError(f"it names a node {clean(name, 40)!r}, which cannot be")
    came = [task["arrived_s"] for task in node["tasks"]]
    known = [when for when in came if when is not None]
    ready = node["phase"] == "ready" and bool(came) and len(known) == len(came)
    return name, Row(ready, max(known) if ready else None)


def expand(nodes: object) -> list[str]:
    """Names of a node list."""
    if not isinstance(nodes, str):
        raise GangstartError("its blamed_nodes is no text")
    return core.expand(nodes) if nodes else []


def looks(nodes: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, tuple[Hit, ...]]]:
    """What was found on each node that was looked at; unknown is no look."""
    for node in nodes:
        health = node.get("health")
        record = health.get("record") if isinstance(health, dict) else None
        if isinstance(record, dict) and is_look(record):
            yield node["name"], tuple(hits(record.get("findings")))


def is_look(record: Mapping[str, Any]) -> bool:
    """Whether a record tells of GPUs, bad or sound; a look in vain does not."""
    verdict = record.get("verdict")
    return record.get("none") is not True and verdict in TOLD


def hits(findings: object) -> Iterator[Hit]:
    """Findings that count, of a list that anybody may have written."""
    for one in findings[:FINDINGS_MOST] if isinstance(findings, list) else ():
        if not isinstance(one, dict) or one.get("kind", "hit") != "hit":
            continue
        check, verdict = str(one.get("check", "")), one.get("verdict")
        if verdict in COUNTED and CHECK.fullmatch(check):
            yield Hit(
                counted_as(check, one.get("value")),
                verdict,
                clean(one.get("reason", "")),
            )


def counted_as(check: str, value: object) -> str:
    """Return the name to count by: faults of the kernel log by their number."""
    number = str(value)
    return (
        f"{check} {number}" if check in FAULTS and NUMBER.fullmatch(number) else check
    )


def is_of_jobs(check: str) -> bool:
    """Whether a finding is about what jobs left, not about the node."""
    return check in OF_JOBS


def merged(copies: Sequence[Start]) -> Start:
    """One start of what several nodes kept of it."""
    first = copies[0]
    rows: dict[str, Row] = {}
    seen: dict[str, tuple[Hit, ...]] = {}
    for one in copies:
        rows.update(one.rows)
        seen.update(one.looks)
    return Start(**(vars(first) | {"rows": rows, "looks": seen}))


def believed(start: Start, proven: Collection[str]) -> Start:
    """Return what to believe of a start, by the nodes that root wrote something on.

    Every node of a released start keeps its report, and a refusal that is because of
    more than half of the nodes is held against nobody. So a start of more than twice as
    many nodes as kept anything has no vote, and its other names, which its user could
    have made up without end, are nobody's.
    """
    proven = start.rows.keys() & set(proven)
    if len(start.rows.keys() | start.blamed) <= 2 * len(proven):
        return start
    told = {
        "rows": {name: row for name, row in start.rows.items() if name in proven},
        "looks": {name: hits for name, hits in start.looks.items() if name in proven},
        "blamed": frozenset(),
    }
    return Start(**(vars(start) | told))
