"""Everybody is there: do they agree, and does everybody reach rank 0's node?"""

from __future__ import annotations

import pytest
from core.c import NOBODY, lib
from core.gangs import SECOND, T0, Gang, offer

WAITING, RELEASED = lib.GS_WAITING, lib.GS_RELEASED
REFUSED = lib.GS_REFUSED


def claimed(claims: list[int]) -> Gang:
    """One task per node, each with its claim, ticked once."""
    gang = Gang(nodes=len(claims), per_node=1)
    for node in range(len(claims)):
        gang.hello(node)
    for rank, claim in enumerate(claims):
        gang.arrive(rank, claim=claim)
    gang.tick()
    return gang


@pytest.mark.parametrize(
    ("claims", "wrong"),
    [
        ([7, 7, 7], ""),
        ([0, 0, 7], ""),
        ([7, 7, 9], "n3"),
        ([9, 7, 7], "n1"),
        ([7, 9], "n2"),
        ([7, 7, 9, 9], "n[3-4]"),
        ([0, 9, 7, 7], "n2"),
        ([7, 7, 8, 8, 9], "n[3-5]"),
        ([7, 8, 9], "n[2-3]"),
        ([1, 2, 2, 2, 3], "n[1,5]"),
    ],
    ids=str,
)
def test_what_most_ranks_claim_holds_and_rank_0s_side_when_there_is_no_majority(
    claims: list[int], wrong: str
) -> None:
    gang = claimed(claims)
    assert gang.blamed() == wrong
    if wrong:
        assert gang.decision()[:3] == (REFUSED, lib.GS_REFUSAL_MISMATCH, 75)
    else:
        assert gang.c.outcome == RELEASED


def test_a_mismatch_is_told_when_all_are_there_not_before() -> None:
    gang = Gang()
    gang.hello(0)
    gang.arrive(0, claim=7)
    gang.arrive(1, claim=9)
    assert gang.tick() == WAITING


def test_with_wiring_a_release_needs_every_nodes_proof() -> None:
    gang = Gang(wiring=True)
    gang.everybody()
    assert gang.tick() == WAITING
    gang.reach(0)
    gang.reach(0)
    assert gang.tick() == WAITING, "one node twice is not two nodes"
    gang.reach(1)
    assert gang.tick() == RELEASED


def test_a_proof_that_is_withdrawn_does_not_count() -> None:
    gang = Gang(wiring=True)
    gang.everybody()
    gang.reach(1)
    gang.reach(1, lib.GS_REACH_CONNECT, 111)
    gang.reach(0)
    assert gang.tick() == WAITING
    gang.reach(1)
    assert gang.tick() == RELEASED


def test_another_address_starts_the_proofs_anew() -> None:
    gang = Gang(wiring=True)
    gang.everybody()
    gang.reach(0)
    lib.gs_gang_unwire(gang.c)
    gang.reach(1)
    assert gang.tick() == WAITING
    gang.reach(0)
    assert gang.tick() == RELEASED


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (lib.GS_REACH_CONNECT, 75),
        (lib.GS_REACH_STRANGER, 75),
        (lib.GS_REACH_RESOLVE, 78),
        (lib.GS_REACH_ELSEWHERE, 78),
    ],
)
def test_no_address_left_refuses_naming_who_failed_the_probe(
    result: int, code: int
) -> None:
    gang = Gang(nodes=3, wiring=True)
    gang.everybody()
    gang.reach(0)
    gang.reach(1, result, 111)
    gang.reach(2)
    lib.gs_gang_unreachable(gang.c, T0 + 9)
    assert gang.decision() == (
        REFUSED,
        lib.GS_REFUSAL_UNREACHABLE,
        code,
        NOBODY,
        NOBODY,
    )
    assert gang.blamed(master=offer("10.0.0.1")) == "n2"


def test_everybody_there_but_not_wired_in_time_is_unreachable_not_a_timeout() -> None:
    gang = Gang(wiring=True, timeout_s=5)
    gang.everybody()
    gang.reach(0)
    assert gang.tick(T0 + 5 * SECOND) == REFUSED
    assert gang.decision()[1] == lib.GS_REFUSAL_UNREACHABLE


def test_without_an_offer_of_rank_0s_node_no_other_node_is_blamed() -> None:
    gang = Gang(nodes=3, wiring=True, timeout_s=5)
    gang.everybody()
    assert gang.tick(T0 + 5 * SECOND) == REFUSED
    assert gang.blamed() == "n1"
