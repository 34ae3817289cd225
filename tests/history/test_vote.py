"""What one job says of its nodes, and who is to blame for a refusal: never a victim."""

from __future__ import annotations

import pytest
from gangstart.errors import GangstartError
from gangstart.history.start import Start, merged, start_of
from gangstart.history.vote import (
    OF_NODES,
    behind,
    is_of_nodes,
    late_vote,
    refusal_vote,
)
from history.historysite import finding, health, report

EIGHT: dict[str, float | None] = {f"n{index}": 1.0 for index in range(8)}


def start(
    step: str = "7.0",
    arrivals: dict[str, float | None] | None = None,
    **changed: object,
) -> Start:
    return start_of(report(step, arrivals or dict(EIGHT), **changed))


def without(*names: str) -> dict[str, float | None]:
    return dict(EIGHT) | dict.fromkeys(names)


def test_lateness_is_counted_from_the_median_of_the_others() -> None:
    assert behind({"a": 1.0, "b": 3.0}) == {"a": -2.0, "b": 2.0}
    assert behind({"a": 1.0, "b": 2.0, "c": 9.0}) == {"a": -1.0, "b": 1.0, "c": 8.0}
    # The bad node itself does not move what it is compared with.
    assert behind({"a": 1.0, "b": 1.0, "c": 1.0, "d": 1000.0})["d"] == 999.0
    # Half of the nodes late: they are late, not the others early.
    assert behind({"a": 1.0, "b": 1.0, "c": 5.0, "d": 5.0})["c"] == 4.0


def test_a_job_has_one_vote_however_many_steps_and_requeues_it_had() -> None:
    few: dict[str, float | None] = {"n0": 1.0, "n1": 9.0}
    many: dict[str, float | None] = dict(EIGHT) | {"n2": 9.0}
    starts = [
        start("7.0", few),
        start("7.1", many),
        start("7.2", many),
        start("7.0", many, restart=1, at=1_790_100_000.0),
    ]
    vote = late_vote(starts)
    assert vote is not None
    assert (vote.start.step, vote.start.attempt) == ("7.1", 0)
    assert [name for name, by in vote.by_s.items() if by > 1] == ["n2"]


@pytest.mark.parametrize(
    "one",
    [
        start("7.0", {"n0": 1.0}),  # nobody to compare with
        start("7.0", without("n0")),  # refused
        start("7.0", outcome="cancelled"),
        Start(**(vars(start()) | {"nodes": 9})),  # one node is not known
    ],
)
def test_what_cannot_be_compared_is_not(one: Start) -> None:
    assert late_vote([one]) is None


def test_a_node_that_did_not_come_is_the_cause() -> None:
    vote = refusal_vote([start("7.0", without("n3"))])
    assert vote is not None
    assert (vote.blamed, vote.nodes) == (frozenset({"n3"}), 8)


@pytest.mark.parametrize(
    ("arrivals", "changed"),
    [
        # Everybody was late: srun's host, the network, the job.
        (without(*EIGHT), {}),
        (without("n0", "n1", "n2", "n3", "n4"), {}),
        # A bad program or option: whoever met it first is named.
        (without("n0"), {"reason": "configuration"}),
        (without("n0"), {"reason": "program_missing"}),
        (without("n0"), {"reason": "mismatch"}),
        # A task died while most others had not yet come as far.
        (without(*list(EIGHT)[:6]), {"reason": "task_ended", "blamed": "n0"}),
        (without(*list(EIGHT)[:6]), {"reason": "launch_failed", "blamed": "n0"}),
        # Slurm gave up because of one of them, the other was on its way.
        (without("n0", "n1"), {"reason": "ended_by_slurm"}),
        # Alone on its node the job itself can be the cause.
        ({"n0": None}, {}),
        # Nobody is named, or the reason is none we know.
        (without("n0"), {"blamed": ""}),
        (without("n0"), {"reason": "sunspots"}),
    ],
)
def test_a_victim_is_not_blamed(
    arrivals: dict[str, float | None], changed: dict[str, object]
) -> None:
    one = start("7.0", arrivals, **changed)
    assert one.outcome == "refused"
    assert not is_of_nodes(one)


@pytest.mark.parametrize(
    "reason",
    sorted(OF_NODES),
)
def test_one_node_among_ready_ones_is_the_cause(reason: str) -> None:
    assert is_of_nodes(start("7.0", without("n3"), reason=reason))


def test_a_job_that_was_refused_and_then_ran_votes_for_the_refusal_once() -> None:
    starts = [start("7.2"), start("7.1", without("n3")), start("7.0", without("n3"))]
    vote = refusal_vote(starts)
    assert vote is not None
    assert vote.start.step == "7.0"


def test_refusals_of_which_no_node_is_the_cause_are_no_vote() -> None:
    assert refusal_vote([start("7.0", without("n0"), reason="configuration")]) is None


def test_what_nodes_kept_of_a_start_is_put_together() -> None:
    parts = []
    for name in EIGHT:
        part = report("7.0", dict(EIGHT), complete=False)
        part["nodes"] = [one for one in part["nodes"] if one["name"] == name]
        parts.append(start_of(part))
    assert not parts[0].whole
    assert late_vote(parts[:1]) is None
    assert merged(parts).whole
    assert late_vote([merged(parts)]) is not None


def test_of_findings_what_counts_is_kept_with_the_faults_number() -> None:
    told = health(
        "fail",
        finding("xid", value="79"),
        finding("persistence", "warn"),
        finding("inforom", "ok"),
        finding("ecc_unc") | {"kind": "skipped"},
        finding("../../etc"),
        finding("xid", value="79; rm"),
    )
    vain = health("unknown", finding("hung"))
    one = start("7.0", health={"n0": told, "n1": vain})
    assert [(hit.check, hit.verdict) for hit in one.looks["n0"]] == [
        ("xid 79", "fail"),
        ("persistence", "warn"),
        ("xid", "fail"),
    ]
    assert set(one.looks) == {"n0"}, "a look in vain is no look"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"blamed": "n[1-"}, "bracket"),
        ({"blamed": 7}, "blamed_nodes"),
        ({"at": None}, "no moment"),
    ],
)
def test_a_report_with_impossible_parts_is_refused(
    changed: dict[str, object], said: str
) -> None:
    with pytest.raises(GangstartError) as caught:
        start("7.0", None, **changed)
    assert said in caught.value.message


@pytest.mark.parametrize("name", ["n 1", "n\x1b[31m", "-rf", "n/../..", "n" * 300, "ñ"])
def test_a_node_whose_name_cannot_be_makes_the_report_a_broken_one(name: str) -> None:
    with pytest.raises(GangstartError):
        start("7.0", {"n0": 1.0, name: 2.0})


def test_a_node_that_was_never_learnt_is_nobody() -> None:
    told = report("7.0", without("n3"), blamed="")
    told["nodes"][3]["name"] = ""
    told["nodes"][4]["name"] = ""
    assert set(start_of(told).rows) == set(EIGHT) - {"n3", "n4"}
