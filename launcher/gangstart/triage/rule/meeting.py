"""How ranks found each other, or did not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gangstart.triage.cause import LINK, MACHINE, PROGRAM, SYMPTOM, Cause, Facts
from gangstart.triage.model import Confidence

if TYPE_CHECKING:
    from gangstart.triage.model import Event

LOOPBACK = re.compile(r"^(?:127\.|localhost|::1|0\.0\.0\.0)")
BRIDGE = re.compile(r"^172\.1[78]\.|^192\.168\.122\.|^169\.254\.")
UNREACHABLE = {"113", "101", "110"}
MEETING = re.compile(
    r"c10d|gai|TCPStore|init_process_group|MASTER_ADDR|rendezvous|rdzv"
)
MILLI = 5000  # a time-out this large is given in milliseconds


def port_in_use(facts: Facts) -> list[Cause]:
    """MASTER_PORT is taken on the node of rank 0."""
    events = facts.of("port_in_use")
    if not events:
        return []
    first = events[0]
    master = facts.trace.layout.master
    port = next(
        (e.fields[k] for e in events for k in ("port", "port2") if k in e.fields),
        master.rpartition(":")[2],
    )
    left = [
        e for e in facts.of("check_left") if port in e.fields.get("ports", "").split()
    ]
    rank = first.rank if first.rank is not None else 0
    node = first.node or facts.node_of(rank) or master.partition(":")[0] or None
    return [
        Cause(
            "PORT_IN_USE",
            PROGRAM,
            events,
            node,
            rank,
            confidence=Confidence.PROVEN,
            what=f"port {port} is in use on {node or 'the node of rank 0'}: use "
            "another MASTER_PORT, or let srun --gang-start choose one",
            notes=[f"a check found who listens there: {e.text}" for e in left[:1]],
        )
    ]


def bad_address(facts: Facts) -> list[Cause]:
    """MASTER_ADDR is no name, or not the node of rank 0."""
    unknown = [e for e in facts.of("name_unknown") if _of_meeting(facts, e)]
    wrong = [
        e for e in facts.of("connect_failed", "connect_timeout") if _wrong(facts, e)
    ]
    if not _never_met(facts):
        # torch warns of every try; what it came through by another one is no cause.
        unknown, wrong = ([e for e in es if not _warned(e)] for es in (unknown, wrong))
    events = unknown + wrong
    if not events:
        return []
    host = next((e.fields["host"] for e in events if "host" in e.fields), "MASTER_ADDR")
    right = facts.node_of(0)
    what = f"MASTER_ADDR {host} cannot be resolved"
    if not unknown:
        what = f"MASTER_ADDR {host} is not an address of rank 0's node"
    if right:
        what += f" (rank 0 runs on {right})"
    nodes = {e.node for e in events if e.node}
    return [
        Cause(
            "BAD_MASTER_ADDR",
            PROGRAM,
            events,
            nodes.pop() if len(nodes) == 1 and unknown else None,
            confidence=Confidence.PROVEN if unknown else Confidence.LIKELY,
            what=what,
        )
    ]


def _warned(event: Event) -> bool:
    return re.match(r"\[?W\W?\d* |\[W", event.text) is not None


def _never_met(facts: Facts) -> bool:
    """Whether some rank gave up meeting the others."""
    gave_up = facts.of(
        "connect_timeout",
        "socket_timeout",
        "rendezvous_timeout",
        "clients_missing",
        "workers_missing",
        "store_wait",
    )
    raised = re.compile(
        r"Dist(?:Network|Store)Error|failed to connect|Rendezvous\w+Error"
    )
    return bool(gave_up) or any(raised.search(e.text) for e in facts.of("exception"))


def _of_meeting(facts: Facts, event: Event) -> bool:
    """Whether a name that did not resolve is where the ranks meet."""
    host = event.fields.get("host", "")
    master = facts.trace.layout.master.partition(":")[0]
    return bool(
        MEETING.search(event.text)
        or (host and (host == master or host.split(".")[0] in facts.nodes))
    )


def _wrong(facts: Facts, event: Event) -> bool:
    host = event.fields.get("host", "").strip("[]()")
    right = facts.node_of(0) or facts.trace.layout.master.partition(":")[0]
    if LOOPBACK.match(host):
        return len(facts.nodes) > 1 and event.node != right
    if BRIDGE.match(host):
        return True
    named = facts.trace.layout.address_node.get(host, host.split(".", 1)[0])
    if right and named in facts.nodes and named != right:
        return True
    if right and host and not host[0].isdigit() and ":" not in host:
        # A name of no node at all; cn01-ib0 is another name of cn01.
        return not any(named.startswith(node) for node in facts.nodes)
    return event.fields.get("errno") in {"99", "22"}


def waiting(facts: Facts) -> list[Cause]:
    """Ranks waited for others that did not come in time."""
    events = facts.of(
        "store_wait",
        "connect_timeout",
        "clients_missing",
        "workers_missing",
        "rendezvous_timeout",
        "socket_timeout",
        "connect_failed",
    )
    if not _never_met(facts):
        events = [e for e in events if not _warned(e)]
    if not events:
        return []
    late = _rank0_alive(facts, events)
    if late:
        return [late]
    named = _absent(facts, events)
    nodes = {facts.node_of(rank) for rank in named}
    what = "ranks did not find each other in time"
    if named:
        what += f"; nothing was heard of rank {', '.join(map(str, named[:16]))}"
    return [
        Cause(
            "RENDEZVOUS_TIMEOUT",
            SYMPTOM,
            events,
            nodes.pop() if len(nodes) == 1 else None,
            named[0] if len(named) == 1 else None,
            confidence=Confidence.POSSIBLE,
            what=what,
        )
    ]


def _absent(facts: Facts, events: list[Event]) -> list[int]:
    """Ranks that did not come: as a barrier lists them, else those that are silent."""
    told = {rank for e in facts.of("absent_task") for rank in e.ranks}
    if told:
        return sorted(told)
    waited = {e.rank for e in events if e.rank is not None}
    silent = facts.world - waited
    few = silent and len(silent) <= max(1, len(facts.world) // 2)
    return sorted(silent) if few and waited else []


def _rank0_alive(facts: Facts, events: list[Event]) -> Cause | None:
    """Rank 0 was busy with something else while the others waited for it."""
    asked = [
        e
        for e in events
        if e.kind
        in {"store_wait", "connect_timeout", "connect_failed", "socket_timeout"}
    ]
    last = facts.last_lines.get(0)
    if not asked or last is None or any(e.rank == 0 for e in events):
        return None
    if any(
        e.kind == "connect_failed" and e.fields.get("errno") in UNREACHABLE
        for e in asked
    ):
        return None
    if last.time is None or asked[0].time is None:
        return None
    waited = max(((e.number("timeout") or 0) for e in asked), default=0)
    took = re.search(r"(?:in|took|after) (\d+(?:\.\d+)?) ?s", last.text)
    what = "rank 0 came too late: it was still busy while the others waited for it"
    if waited:
        what += f" {waited / 1000 if waited > MILLI else waited:.0f} s"
    if took:
        what += f" (it took {took[1]} s)"
    return Cause(
        "RANK0_LATE",
        LINK,
        [asked[0], last],
        facts.node_of(0),
        0,
        what=what + f"; rank 0's last line: {last.text[:160]}",
    )


def singleton(facts: Facts) -> list[Cause]:
    """Every rank believes to be alone."""
    events = facts.of("mpi_singleton")
    alone = facts.of("mpi_hello")
    if not events and len(alone) <= 1:
        return []
    return [
        Cause(
            "MPI_SINGLETON",
            MACHINE,
            events + alone[:2],
            confidence=Confidence.PROVEN if events else Confidence.LIKELY,
            what="every task is MPI's rank 0 of 1: the MPI library and srun do not "
            "speak "
            "the same PMI; use srun --mpi=pmix (or the PMI that the library was built "
            "with)",
        )
    ]


def refused(facts: Facts) -> list[Cause]:
    """Our own refusal: it says who did not come, never why."""
    events = facts.of("gang_refused", "gang_missing")
    layout = facts.trace.layout
    if not events and layout.outcome != "refused":
        return []
    blamed = facts.of("gang_blamed", "gang_missing")
    ranks = sorted({r for e in blamed for r in e.ranks} | set(layout.missing_ranks))
    nodes = list(dict.fromkeys([e.node for e in blamed if e.node]))
    nodes = nodes or list(layout.blamed_nodes)
    nodes = nodes or sorted({n for r in ranks if (n := facts.node_of(r))})
    code = _refusal(events[0].text if events else layout.reason)
    why = f": {blamed[0].text.strip()[:160]}" if blamed else ""
    who = ", ".join(nodes[:8]) or "some nodes"
    return [
        Cause(
            code,
            SYMPTOM,
            events + blamed,
            nodes[0] if len(nodes) == 1 else None,
            ranks[0] if len(ranks) == 1 else None,
            confidence=Confidence.LIKELY,
            what=f"the gang start was refused because of {who}{why}; why they were not "
            "ready is not in what was looked at",
        )
    ]


REFUSALS = (
    (r"GPUs?\b.*(?:of|/) ?\d+|GPU_COUNT", "GPU_COUNT"),
    (r"program is not everywhere|program_missing|No such file", "NODE_SOFTWARE"),
    (r"could not launch|launch_failed", "LAUNCH_FAILED"),
    (r"node was lost|node_lost", "NODE_FAIL"),
)


def _refusal(text: str) -> str:
    for pattern, code in REFUSALS:
        if re.search(pattern, text):
            return code
    return "BARRIER_TIMEOUT"


RULES = (port_in_use, bad_address, waiting, singleton, refused)
