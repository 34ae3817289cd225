"""Whatever happens in whatever order, the gang keeps its four promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from core.c import lib
from core.gangs import SECOND, T0, Gang, offer
from hypothesis import given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

NODES, PER_NODE = 4, 2
TASKS = NODES * PER_NODE
SECONDS = 60


class Event(NamedTuple):
    """Something that happens, to a node or a rank."""

    what: str
    who: int


def lose(gang: Gang, node: int, now: int) -> None:
    lib.gs_gang_lost(gang.c, node, b"connection lost", now)


DO: dict[str, Callable[[Gang, int, int], object]] = {
    "hello": lambda gang, node, now: gang.hello(node, now),
    "arrive": lambda gang, rank, now: gang.arrive(rank, now),
    "reach": lambda gang, node, _now: gang.reach(node),
    "stale": lambda gang, node, now: gang.hello(node, now, restart_count=1),
    "tick": lambda gang, _who, now: gang.tick(now),
    "exit": lambda gang, rank, now: gang.end(rank, lib.GS_FAIL_EXIT, 1, now),
    "crash": lambda gang, rank, now: gang.end(rank, lib.GS_FAIL_SIGNAL, 11, now),
    "launch": lambda gang, node, now: gang.fail_node(
        node, lib.GS_FAIL_LAUNCH, "no", now
    ),
    "lost": lose,
    "odd": lambda gang, node, now: gang.hello(node, now, node_count=9),
}
FATAL = {"exit", "crash", "launch", "lost", "odd"}
BY_RANK = {"arrive", "exit", "crash"}

#: What a good start consists of.
GOOD = [
    *(Event("hello", node) for node in range(NODES)),
    *(Event("reach", node) for node in range(NODES)),
    *(Event("arrive", rank) for rank in range(TASKS)),
]
EXTRA = st.sampled_from(sorted(DO)).flatmap(
    lambda what: st.builds(
        Event,
        st.just(what),
        st.integers(0, (TASKS if what in BY_RANK else NODES) - 1),
    )
)
HARMLESS = EXTRA.filter(lambda event: event.what not in FATAL)
STORY = st.tuples(st.lists(EXTRA, max_size=8), st.sets(st.sampled_from(GOOD))).flatmap(
    lambda parts: st.permutations([*parts[0], *(e for e in GOOD if e not in parts[1])])
)
GOOD_STORY = st.lists(HARMLESS, max_size=8).flatmap(
    lambda more: st.permutations([*more, *GOOD])
)
LIMITS = settings(max_examples=200)


def play(events: list[Event]) -> tuple[Gang, int]:
    """Feed the events a microsecond apart; the gang and the moment of the last one."""
    gang = Gang(NODES, PER_NODE, SECONDS, wiring=True)
    now = T0
    for event in events:
        now += 1
        before = gang.decision()
        DO[event.what](gang, event.who, now)
        if before[0] != lib.GS_WAITING:
            assert gang.decision() == before, f"{event} changed the decision"
    gang.tick(now)
    return gang, now


def is_complete(events: list[Event]) -> bool:
    """All tasks there and all nodes wired: what the pure gang itself looks at."""
    wanted = {event for event in GOOD if event.what != "hello"}
    return wanted <= set(events)


@LIMITS
@given(GOOD_STORY)
def test_everybody_in_any_order_is_a_release(events: list[Event]) -> None:
    gang, _ = play(events)
    assert gang.c.outcome == lib.GS_RELEASED


@LIMITS
@given(STORY)
def test_a_release_happens_only_when_all_are_there_and_nothing_failed(
    events: list[Event],
) -> None:
    gang, now = play(events)
    failed = any(event.what in FATAL for event in events)
    if gang.c.outcome == lib.GS_RELEASED:
        done = next(i for i in range(len(events) + 1) if is_complete(events[:i]))
        assert not any(event.what in FATAL for event in events[:done])
    elif not failed:
        assert not is_complete(events)
        assert gang.c.outcome == lib.GS_WAITING
        assert (
            not gang.c.connected_count
            or gang.tick(now + SECONDS * SECOND) == lib.GS_REFUSED
        )


@LIMITS
@given(STORY)
def test_a_node_that_was_ready_and_did_not_fail_is_never_blamed(
    events: list[Event],
) -> None:
    gang, now = play(events)
    gang.tick(now + SECONDS * SECOND)
    report = gang.report(master=offer("10.0.0.1"))
    if gang.c.outcome != lib.GS_REFUSED:
        assert report["blamed_nodes"] == ""
        return
    happened = set(events)
    culprits = {
        event.who // PER_NODE if event.what in BY_RANK else event.who
        for event in events
        if event.what in FATAL
    }
    for node in set(range(NODES)) - culprits:
        ready = {event for event in GOOD if whose(event) == node} <= happened
        if ready:
            assert f"n{node + 1}" not in unfold(report["blamed_nodes"])


def whose(event: Event) -> int:
    """Node an event belongs to."""
    return event.who // PER_NODE if event.what in BY_RANK else event.who


def unfold(hosts: str) -> set[str]:
    """Names of a folded list of this file's nodes."""
    names: set[str] = set()
    for part in hosts.removeprefix("n").strip("[]").split(","):
        low, _, high = part.partition("-")
        if low:
            names |= {f"n{i}" for i in range(int(low), int(high or low) + 1)}
    return names
