"""Collectives that did not end, or failed."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from gangstart.triage.cause import LINK, MACHINE, SYMPTOM, Cause, Facts
from gangstart.triage.model import Confidence
from gangstart.triage.rule import signals

if TYPE_CHECKING:
    from gangstart.triage.model import Event

#: Operations whose sizes may differ between ranks, or that not all ranks call.
UNEVEN = {"SEND", "RECV", "COALESCED", "ALLTOALL", "ALLTOALL_BASE", "SCATTER", "GATHER"}
#: With more ranks silent than this share, silence names nobody.
FEW = 0.25


def mismatch(facts: Facts) -> list[Cause]:
    """Ranks called different collectives at the same place of the sequence."""
    made = _mismatch_told(facts) or _extra_call(facts)
    odd = _odd(facts)
    if odd:
        ranks, events, what = odd
        rank = next(iter(ranks)) if len(ranks) == 1 else None
        made.append(
            Cause(
                "COLLECTIVE_MISMATCH",
                LINK,
                events,
                facts.node_of(rank),
                rank,
                confidence=Confidence.PROVEN,
                what=what,
            )
        )
        if made[0].rank is None:
            made[0].rank, made[0].node = rank, facts.node_of(rank)
    return made[:1]


def _extra_call(facts: Facts) -> list[Cause]:
    """A few ranks wait in a collective that most others never called."""
    events = facts.of("nccl_watchdog")
    counters = _counters(facts) if facts.of("nccl_progress") else {}
    ranks = {e.rank for e in events if e.rank is not None}
    if not events or len(ranks) > FEW * len(facts.world) or not counters:
        return []
    seq = events[0].number("seq") or 0
    without = [r for r, value in counters.items() if r not in ranks and value < seq]
    if len(without) <= len(facts.world) // 2:
        return []
    rank = next(iter(ranks)) if len(ranks) == 1 else None
    named = ", ".join(map(str, sorted(ranks)))
    what = (
        f"only rank {named} called collective {seq} ({events[0].fields.get('op')}), "
        "the others did not: mismatched calls, a bug of the program"
    )
    return [
        Cause("COLLECTIVE_MISMATCH", LINK, events, facts.node_of(rank), rank, what=what)
    ]


def _mismatch_told(facts: Facts) -> list[Cause]:
    events = facts.of("collective_mismatch")
    if not events:
        return []
    named = Counter(
        rank
        for e in events
        for rank in (e.rank, e.number("other"))
        if rank is not None and ("one" in e.fields or rank == e.rank)
    )
    most = named.most_common(2)
    clear = len(most) == 1 or (len(most) > 1 and most[0][1] > most[1][1])
    rank = most[0][0] if most and clear else None
    return [
        Cause(
            "COLLECTIVE_MISMATCH",
            LINK,
            events,
            facts.node_of(rank),
            rank,
            confidence=Confidence.PROVEN,
            what="ranks called different collectives (mismatch): a branch of the "
            "program depends on data or on the rank",
        )
    ]


def _odd(facts: Facts) -> tuple[set[int], list[Event], str] | None:
    """The few ranks whose operation or size differs at the same number."""
    by_seq: dict[str, dict[int, Event]] = defaultdict(dict)
    for event in facts.of("nccl_watchdog"):
        if event.rank is not None and event.fields.get("op") not in UNEVEN:
            by_seq[event.fields.get("seq", "")].setdefault(event.rank, event)
    for events in by_seq.values():
        for names in (("op",), ("op", "in", "out", "shape")):
            found = _minority(events, names)
            if found:
                return found
    return None


def _minority(
    events: dict[int, Event], names: tuple[str, ...]
) -> tuple[set[int], list[Event], str] | None:
    shapes = {
        rank: " ".join(e.fields.get(name, "") for name in names).strip()
        for rank, e in events.items()
    }
    counted = Counter(shapes.values()).most_common()
    if len(counted) <= 1:
        return None
    usual, many = counted[0]
    odd = {rank for rank, shape in shapes.items() if shape != usual}
    if many == len(odd):
        odd_named: set[int] = set()
    else:
        odd_named = odd
    other = shapes[min(odd)]
    what = (
        f"mismatched collectives at number {events[min(odd)].fields.get('seq')}: "
        f"rank {', '.join(map(str, sorted(odd)[:8]))} is in {other}, the others are in "
        f"{usual}; a bug of the program, not of the network"
    )
    shown = [events[min(odd)], events[min(set(events) - odd)]]
    return odd_named, shown, what


def timeout(facts: Facts) -> list[Cause]:
    """A collective timed out; who is behind, if the numbers show it."""
    events = facts.of("nccl_watchdog", "nccl_heartbeat", "monitored_barrier")
    events += [e for e in facts.of("fr_missing", "stall") if _named(e)]
    if not events:
        return []
    if _first_collective(facts):
        return [_never_worked(facts, events)]
    behind, how = _behind(facts)
    seen = signals.stopped(facts)
    if seen and not behind:
        behind, how = set(seen.ranks), seen.how
    rank = next(iter(behind)) if len(behind) == 1 else None
    names = ", ".join(map(str, sorted(behind)[:8]))
    what = "a collective timed out; what held it up is not in the logs"
    if behind:
        what = f"a collective timed out: rank {names} is behind ({how})"
    elif seen and seen.node:
        what = f"a collective timed out: a rank on {seen.node} is behind ({seen.how})"
    nodes = {facts.node_of(one) for one in behind} or {seen.node if seen else None}
    return [
        Cause(
            "NCCL_TIMEOUT",
            SYMPTOM,
            [*events[:1], *(seen.events if seen else ()), *events[1:]],
            nodes.pop() if len(nodes) == 1 else None,
            rank,
            confidence=Confidence.LIKELY if behind or seen else Confidence.POSSIBLE,
            what=what,
            notes=_notes(facts, rank),
        )
    ]


def _named(event: Event) -> tuple[int, ...]:
    """Ranks that a line calls missing; Horovod's look like srun's label."""
    label = event.number("label") if event.kind == "stall" else None
    return event.ranks or (() if label is None else (label,))


def _notes(facts: Facts, rank: int | None) -> list[str]:
    """What else was seen on the node of the rank that is behind."""
    node = facts.node_of(rank)
    seen = facts.of("hung_task", "recompile", "machine_check")
    near = [e for e in seen if node is None or e.node in {None, node}]
    return [f"seen as well: {e.text[:160]}" for e in near[:3]]


def _first_collective(facts: Facts) -> bool:
    """Whether nothing had ever completed: the first number, and no steps before."""
    watchdog = facts.of("nccl_watchdog")
    status = facts.of("nccl_progress")
    if not watchdog:
        return False
    early = all((e.number("seq") or 0) <= 1 for e in watchdog)
    done = any((e.number("completed") or 0) > 0 for e in status)
    return early and not done and not facts.progress


def _never_worked(facts: Facts, events: list[Event]) -> Cause:
    silent = facts.world - {e.rank for e in events}
    notes = []
    if facts.world and 0 < len(silent) <= FEW * len(facts.world):
        notes.append(f"rank {', '.join(map(str, sorted(silent)))} did not report it")
    return Cause(
        "NCCL_FIRST_COLLECTIVE",
        SYMPTOM,
        events,
        what="the very first collective (SeqNum=1) never completed: GPU to GPU "
        "communication never worked here (P2P or ACS, wrong network interface, "
        "firewall)",
        notes=notes,
    )


def _behind(facts: Facts) -> tuple[set[int], str]:
    """Ranks that hold up the others, and how that is known."""
    told = {
        rank
        for e in facts.of("fr_missing", "monitored_barrier", "stall")
        for rank in _named(e)
    }
    if told:
        return told, "reported as missing"
    counters = _counters(facts)
    if len(counters) > 1:
        most = Counter(counters.values()).most_common(1)[0][0]
        low = {rank for rank, value in counters.items() if value < most}
        if low and len(low) <= max(1, FEW * len(counters)):
            return (
                low,
                f"its last collective is {min(counters.values())}, the others' {most}",
            )
    reported = {e.rank for e in facts.of("nccl_watchdog") if e.rank is not None}
    silent = set(facts.world - reported)
    if silent and reported and len(silent) <= max(1, FEW * len(facts.world)):
        return silent, "it is the only one that reported no time-out"
    return set(), ""


def _counters(facts: Facts) -> dict[int, int]:
    """Last enqueued number of each rank, of the process group most ranks speak of."""
    groups: dict[str, dict[int, int]] = defaultdict(dict)
    for event in facts.of("nccl_progress"):
        value = event.number("enqueued")
        if event.rank is not None and value is not None:
            groups[event.fields.get("pg", "")].setdefault(event.rank, value)
    counters = max(groups.values(), key=len, default={})
    if counters:
        return counters
    return {
        e.rank: e.number("seq") or 0
        for e in facts.of("nccl_watchdog")
        if e.rank is not None
    }


def internal(facts: Facts) -> list[Cause]:
    """NCCL failed and gives no reason."""
    events = facts.of(
        "nccl_internal", "nccl_system", "nccl_unhandled_cuda", "nccl_usage"
    )
    if not events:
        return []
    node, rank = facts.where(events)
    warn = facts.of("nccl_warn", "nccl_cuda")
    what = "NCCL failed with an error that nothing explains"
    if warn:
        what += f"; its last warning: {warn[-1].text[:160]}"
    return [
        Cause(
            "NCCL_INTERNAL",
            SYMPTOM,
            events + warn[:2],
            node,
            rank,
            confidence=Confidence.POSSIBLE,
            what=what,
        )
    ]


def stale_peer(facts: Facts) -> list[Cause]:
    """Somebody of an earlier run, or of another job, spoke to this one."""
    events = facts.of("stale_incarnation", "nccl_magic")
    if not events:
        return []
    node, rank = facts.where(events)
    return [
        Cause(
            "STALE_INCARNATION",
            LINK if facts.of("nccl_magic") else MACHINE,
            events,
            node,
            rank,
            what="a process of an earlier run (or of another job) spoke to this one",
        )
    ]


RULES = (mismatch, timeout, internal, stale_peer)
