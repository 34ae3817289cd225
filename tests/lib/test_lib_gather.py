"""Barriers as rank 0 keeps them: one outcome for all, and the right ones named."""

from __future__ import annotations

import json
from dataclasses import asdict

from gangstart.gather import Gather, Outcome, ranges
from gangstart.run.link import BODY_MAX
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

NODES = {0: "n1", 1: "n1", 2: "n2", 3: "n2"}


def all_but(gather: Gather, absent: set[int], number: int = 1, name: str = "") -> None:
    for rank in sorted(set(range(gather.world)) - absent):
        assert gather.arrive(rank, number, name, float(rank)) == []


def test_it_passes_when_the_last_one_comes_and_names_that_one() -> None:
    gather = Gather(4, NODES)
    all_but(gather, {2})
    ((told, outcome),) = gather.arrive(2, 1, "", 7.5)

    assert told == [3, 2, 1, 0], "rank 0 hears last: then its process may end"
    assert (outcome.kind, outcome.last_rank, outcome.last_node) == ("passed", 2, "n2")
    assert outcome.skew_s == 7.5


def test_who_gives_up_ends_it_for_all_and_only_the_missing_are_blamed() -> None:
    gather = Gather(4, NODES)
    all_but(gather, {2, 3})
    ((told, outcome),) = gather.withdraw(1, 1, "5 s are over")

    assert told == [1, 0]
    assert (outcome.kind, outcome.ranks, outcome.count) == ("timeout", ((2, 3),), 2)
    assert outcome.text == (
        "ranks 2-3 on n2 did not come (rank 1 on n1 gave up: 5 s are over)"
    )


def test_a_late_one_hears_at_once_and_all_meet_in_the_next() -> None:
    gather = Gather(2, NODES)
    gather.arrive(0, 1, "", 0)
    gather.withdraw(0, 1, "1 s is over")
    ((told, outcome),) = gather.arrive(1, 1, "", 9)

    assert told == [1]
    assert outcome.kind == "timeout"
    assert outcome.text.startswith("it is over already: rank 1 on n1 did not come")
    assert gather.arrive(1, 2, "", 10) == []
    ((_, outcome),) = gather.arrive(0, 2, "", 11)
    assert (outcome.number, outcome.kind) == (2, "passed")


def test_a_rank_that_gave_up_unheard_ends_the_barrier_it_had_left() -> None:
    gather = Gather(3, NODES)
    gather.arrive(0, 1, "", 0)
    ((told, outcome),) = gather.arrive(2, 2, "", 1)

    assert (told, outcome.number, outcome.kind) == ([0], 1, "timeout")
    assert gather.arrive(0, 2, "", 2) == []
    assert gather.arrive(1, 1, "", 3)[0][0] == [1]
    ((told, outcome),) = gather.arrive(1, 2, "", 4)
    assert (told, outcome.kind) == ([2, 1, 0], "passed")


def test_a_rank_that_is_gone_is_named_at_once_and_ever_after() -> None:
    gather = Gather(4, NODES)
    all_but(gather, {3})
    ((told, outcome),) = gather.gone(1)

    assert (told, outcome.kind, outcome.ranks) == ([2, 0], "gone", ((1, 1),))
    assert outcome.text == "rank 1 on n1 has ended"
    ((told, outcome),) = gather.arrive(0, 2, "", 9)
    assert (told, outcome.kind) == ([0], "gone")


def test_the_first_that_is_gone_is_told_to_all_before_rank_0_knows() -> None:
    gather = Gather(4, NODES)
    gather.arrive(0, 1, "", 0)
    notice, verdict = gather.gone(2, linked=[0, 1, 3])

    assert (notice[0], notice[1].number, notice[1].kind) == ([1, 3], 0, "gone")
    assert notice[1].text == "rank 2 on n2 has ended"
    assert (verdict[0], verdict[1].number) == ([0], 1)
    assert gather.gone(3, linked=[0, 1]) == [], "whoever ends next is not to blame"


def test_different_calls_are_told_apart_at_once() -> None:
    gather = Gather(4, NODES)
    gather.arrive(0, 1, "save", 0)
    ((told, outcome),) = gather.arrive(3, 1, "eval", 0)

    assert (told, outcome.kind) == ([3, 0], "mismatch")
    assert "rank 0 on n1 in 'save'" in outcome.text
    assert "rank 3 on n2 in 'eval'" in outcome.text


def test_ranges_fold_neighbours() -> None:
    assert ranges([5, 1, 2, 3, 9]) == ((1, 3), (5, 5), (9, 9))


CALLS = st.lists(
    st.tuples(
        st.sampled_from(["come", "withdraw", "end"]),
        st.integers(0, 4),
        st.sampled_from(["", "a"]),
    ),
    max_size=60,
)


class Players:
    """Five ranks that call, give up and end as they are told."""

    def __init__(self) -> None:
        self.gather = Gather(5, {})
        self.number = [0] * 5
        self.waiting: dict[int, int] = {}
        self.gone: set[int] = set()

    def come(self, rank: int, name: str) -> None:
        if rank not in self.waiting:
            self.number[rank] += 1
            self.waiting[rank] = self.number[rank]
            self.take(self.gather.arrive(rank, self.number[rank], name, 0.0))

    def withdraw(self, rank: int, why: str) -> None:
        if rank in self.waiting:
            self.take(self.gather.withdraw(rank, self.waiting[rank], why))
            assert rank not in self.waiting

    def end(self, rank: int, _: str) -> None:
        self.gone.add(rank)
        self.waiting.pop(rank, None)
        self.take(self.gather.gone(rank))

    def take(self, news: list[tuple[list[int], Outcome]]) -> None:
        for told, outcome in news:
            assert outcome.kind != "passed" or set(told) == set(range(5))
            for rank in told:
                assert self.waiting.pop(rank) == outcome.number


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(CALLS)
def test_every_call_gets_exactly_one_outcome_and_a_pass_has_everybody(
    calls: list[tuple[str, int, str]],
) -> None:
    players = Players()
    for kind, rank, name in calls:
        if rank not in players.gone:
            getattr(players, kind)(rank, name)


def test_whatever_fails_fits_a_frame() -> None:
    nodes = {rank: f"{'x' * 60}{rank}" for rank in range(10_000)}
    gather = Gather(10_000, nodes)
    for rank in range(0, 10_000, 2):
        gather.arrive(rank, 1, "", 0)
    ((_, outcome),) = gather.withdraw(0, 1, "x" * 100)
    odd = Gather(10_000, nodes)
    odd.arrive(0, 1, "x" * 64, 0)
    ((_, mixed),) = odd.arrive(1, 1, "y" * 64, 0)

    assert outcome.count == 5_000
    for made in (outcome, mixed):
        assert len(json.dumps({"k": "outcome", **asdict(made)})) <= BODY_MAX
