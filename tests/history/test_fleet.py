"""Fleets whose truth is known: healthy nodes are left in peace, bad ones are found.

Docs/history.md has the figures of more runs than fit here.
"""

from __future__ import annotations

import pytest
from gangstart.history import judge
from gangstart.history.assemble import rates
from gangstart.history.model import LATE_S, Reading
from history.fleet import ALWAYS, Fleet

RUNS = 100
JOBS = 300
#: With a rate of 1 % more than 5 of 100 runs are a matter of one in two thousand.
MOST = 5


def test_a_healthy_fleet_of_200_is_accused_no_oftener_than_stated() -> None:
    wrong = 0
    for seed in range(RUNS):
        fleet = Fleet(seed)
        fleet.run(JOBS)
        told = fleet.history()
        assert told.tests > 300, "the test is about many tests"
        assert told.late_rate > 0.05, "and about a fleet in which nodes are late"
        assert told.refusal_rate > 0.001
        wrong += bool(fleet.accused())
    assert wrong <= MOST


#: Jobs after which 95 % of bad nodes are found: docs/history.md.
FOUND = [
    ("late", 1.0, 8, 12),
    ("late", 0.5, 16, 29),
    ("failing", 1.0, 16, 5),
    ("failing", 0.5, 16, 14),
]


@pytest.mark.parametrize(("what", "share", "size", "jobs"), FOUND)
def test_a_bad_node_is_found_and_nobody_else(
    what: str, share: float, size: int, jobs: int
) -> None:
    runs, found = 20, 0
    for seed in range(runs):
        fleet = Fleet(seed, sizes=(size,), refused=0.0, **{what: {"n007": share}})  # type: ignore[arg-type]
        fleet.run(1200 // size)
        fleet.run(jobs, among="n007")
        accused = fleet.accused()
        assert accused in ([], ["n007"])
        found += accused == ["n007"]
    assert found >= 0.85 * runs


def test_a_node_that_is_late_in_every_job_is_not_accused_in_four() -> None:
    fleet = Fleet(1, sizes=(16,), late={"n007": 1.0})
    fleet.run(4, among="n007")
    node = fleet.history().node("n007")
    assert node is not None
    assert (node.late.jobs, node.late.standing, node.verdict) == (
        4,
        "unknown",
        "unknown",
    )


def test_a_node_that_was_mended_is_no_longer_accused() -> None:
    fleet = Fleet(2, sizes=(16,), late={"n007": 1.0}, refused=0.0)
    fleet.run(20, among="n007")
    before = fleet.history().node("n007")
    fleet.late = {}
    fleet.sizes = (2,)
    fleet.spread = lambda: 0.01  # type: ignore[method-assign]
    fleet.run(20, among="n007")
    after = fleet.history().node("n007")
    assert before is not None
    assert after is not None
    assert (before.late.standing, before.verdict) == ("worse", "fail")
    assert (after.late.standing, after.verdict) == ("mended", "warn")
    assert "; mended: not in its newest 20 jobs" in after.sentences[0]
    assert after.next == ""


def test_jobs_that_are_slow_as_a_whole_accuse_nobody() -> None:
    # Half of n007's jobs are on slow storage, where half of the nodes are late.
    fleet = Fleet(3, refused=0.0)
    fleet.spread = lambda: 8.0  # type: ignore[method-assign]
    fleet.run(60, among="n007")
    fleet.spread = lambda: 0.05  # type: ignore[method-assign]
    fleet.run(300)
    told = fleet.history().node("n007")
    assert told is not None
    assert told.late.hits >= 10
    assert told.late.standing == "ordinary"


def test_whom_one_asks_for_changes_what_is_shown_not_how_it_is_judged() -> None:
    fleet = Fleet(4, late={"n007": 0.5})
    fleet.run(200)
    everybody = fleet.history()
    usual = rates(fleet.sums, LATE_S)
    reading = Reading("", "c")
    some = judge.history(fleet.sums.tallies, ["n007", "x1"], ALWAYS, reading, usual)
    assert [node.name for node in some.nodes] == ["n007"]
    assert some.nodes[0] == everybody.node("n007")
    assert (some.tests, some.fleet) == (everybody.tests, everybody.fleet)
    assert some.never_seen == ("x1",)
