"""What one task gets; the faults that people reported are in tests/cases."""

from __future__ import annotations

import pytest
from gangstart import core
from gangstart._core import lib
from gangstart.record import replace

FACTS = core.EnvFacts(step="7.1")
ENV = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "1",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    "SLURM_PROCID": "2",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "1",
    "SLURMD_NODENAME": "n2",
    "SLURM_GTIDS": "2,3",
}
ANNOUNCED = replace(FACTS, master_addr="10.0.0.1", master_port=61234)
TORCH = {
    "RANK": "2",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "4",
    "LOCAL_WORLD_SIZE": "2",
    "NODE_RANK": "1",
    "GROUP_RANK": "1",
}


def plan(facts: core.EnvFacts = ANNOUNCED, **changes: str | None) -> core.EnvPlan:
    """The plan for ENV with some variables changed, None = removed."""
    env = {k: v for k, v in {**ENV, **changes}.items() if v is not None}
    return core.env_plan(env, facts)


def test_a_task_gets_every_variable_and_nothing_else() -> None:
    facts = replace(ANNOUNCED, report="/run/gangstart/7.1/start.json", t0=1234.5)
    made = plan(facts)
    assert made.outcome == "inject"
    assert made.warnings == ()
    assert made.message == ""
    assert made.set == {
        **TORCH,
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "61234",
        "GANGSTART_REPORT": "/run/gangstart/7.1/start.json",
        "GANGSTART_STEP": "7.1",
        "GANGSTART_T0": "1234.500000",
        "GANGSTART_MASTER": "10.0.0.1 61234",
    }


def test_without_announcement_all_ranks_compute_the_same_meeting_place() -> None:
    first = plan(FACTS, SLURM_PROCID="3", SLURM_LOCALID="1")
    other = plan(
        FACTS,
        SLURM_PROCID="0",
        SLURM_NODEID="0",
        SLURMD_NODENAME="n1",
        SLURM_GTIDS="0,1",
    )
    assert first.set["MASTER_ADDR"] == other.set["MASTER_ADDR"] == "n1"
    assert first.set["MASTER_PORT"] == other.set["MASTER_PORT"]
    rules = core.PortRules()
    assert int(first.set["MASTER_PORT"]) == next(core.port_candidates(rules, 7, 1))


def test_a_users_values_are_kept_and_recorded_as_his() -> None:
    made = plan(MASTER_ADDR="n1-ib", MASTER_PORT="29500")
    assert made.keep == {"MASTER_ADDR": "n1-ib", "MASTER_PORT": "29500"}
    assert made.set["GANGSTART_MASTER"] == "- -"
    assert plan(MASTER_PORT="29500").set["GANGSTART_MASTER"] == "10.0.0.1 -"


def test_opted_out_variables_are_left_alone() -> None:
    facts = replace(ANNOUNCED, without=1 << lib.GS_VAR_RANK)
    made = plan(facts, RANK="mine")
    assert "RANK" not in made.set
    assert made.unset == ()
    assert made.set["LOCAL_RANK"] == "0"


def test_with_env_none_only_our_own_variables_come() -> None:
    facts = replace(FACTS, presets=lib.GS_ENV_NONE)
    made = plan(facts, MASTER_PORT="not a port, and none of our business")
    assert made.set == {"GANGSTART_STEP": "7.1"}


OUTER = {
    "GANGSTART_STEP": "7.0",
    "GANGSTART_MASTER": "n9 50000",
    "GANGSTART_REPORT": "/r",
    "RANK": "63",
    "MASTER_ADDR": "n9",
    "MASTER_PORT": "29500",
}


def test_what_an_outer_gang_step_left_is_found_but_the_users_own_is_not() -> None:
    env = {**ENV, **OUTER}
    stale = ["RANK", "MASTER_ADDR", *(n for n in OUTER if n.startswith("GANGSTART_"))]
    assert sorted(core.env_stale(env, "7.1")) == sorted(stale)
    assert sorted(core.env_stale(env)) == sorted(stale)
    assert core.env_stale(env, "7.0") == []
    assert core.env_stale({"RANK": "1", "MASTER_ADDR": "n9"}) == []


def test_an_inner_step_replaces_or_removes_what_the_outer_left() -> None:
    made = plan(ANNOUNCED, **OUTER)
    assert made.set["RANK"] == "2"
    assert made.set["MASTER_ADDR"] == "10.0.0.1"
    assert made.keep == {"MASTER_PORT": "29500"}
    assert made.unset == ("GANGSTART_REPORT",)
    assert made.warnings == ()


def test_planning_twice_in_one_step_gives_the_same() -> None:
    first = plan(FACTS)
    again = core.env_plan({**ENV, **first.set}, replace(FACTS, master_addr="other"))
    assert again.keep == {k: first.set[k] for k in ("MASTER_ADDR", "MASTER_PORT")}
    assert again.unset == ()


def test_a_step_without_the_flag_is_left_alone() -> None:
    made = plan(replace(FACTS, gang_on=False), RANK="5", MASTER_ADDR="mine")
    assert (made.outcome, made.set, made.unset) == ("noop", {}, ())


@pytest.mark.parametrize("step", [0xFFFFFFFA, 0xFFFFFFFB, 0xFFFFFFFC, 0xFFFFFFFD])
def test_special_steps_are_left_alone_whoever_names_them(step: int) -> None:
    assert plan(replace(FACTS, step_id=step)).outcome == "noop"
    assert plan(core.EnvFacts(), SLURM_STEP_ID=str(step)).outcome == "noop"


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"SLURM_PROCID": "x"}, ["SLURM_PROCID='x'"]),
        ({"SLURM_PROCID": None}, ["SLURM_PROCID is not set", "srun"]),
        ({"SLURM_PROCID": "4"}, ["SLURM_PROCID=4", "SLURM_STEP_NUM_TASKS=4"]),
        ({"SLURM_LOCALID": "2"}, ["SLURM_LOCALID=2", "2 task(s) on this node"]),
        ({"SLURM_NODEID": "2"}, ["SLURM_NODEID=2", "2 node(s)"]),
        ({"SLURM_NODEID": "0"}, ["SLURM_NODEID=0 is n1", "this node is n2"]),
        ({"SLURM_STEP_TASKS_PER_NODE": "2(x"}, ["SLURM_STEP_TASKS_PER_NODE", "'2(x'"]),
        ({"SLURM_STEP_NUM_TASKS": "5"}, ["2(x2)", "4 tasks", "is 5"]),
        ({"SLURM_STEP_NUM_TASKS": "0"}, ["SLURM_STEP_NUM_TASKS=0"]),
        ({"SLURM_STEP_NUM_NODES": "3"}, ["2 node(s)", "has 3"]),
        ({"SLURM_STEP_NODELIST": "n[2-1]"}, ["SLURM_STEP_NODELIST", "n[2-1]"]),
        ({"SLURM_GTIDS": "2,3,4"}, ["SLURM_GTIDS lists 3"]),
        ({"SLURM_GTIDS": "3,2"}, ["SLURM_PROCID=2", "rank 3 in SLURM_GTIDS"]),
        ({"SLURM_GTIDS": "2,"}, ["SLURM_GTIDS='2,'"]),
        ({"SLURM_JOB_ID": "abc"}, ["SLURM_JOB_ID='abc'"]),
        ({"SLURM_STEP_ID": "-1"}, ["SLURM_STEP_ID='-1'"]),
    ],
)
def test_a_contradiction_refuses_the_start_naming_both_sides(
    changes: dict[str, str | None], parts: list[str]
) -> None:
    made = plan(FACTS, **changes)
    assert (made.outcome, made.exit_code) == ("fail", 78)
    assert (made.set, made.keep, made.unset) == ({}, {}, ())
    for part in parts:
        assert part in made.message


def test_control_characters_in_a_refused_value_are_not_repeated() -> None:
    assert "\x1b" not in plan(FACTS, MASTER_ADDR="\x1b[31mn1").message


def test_an_announced_loopback_is_refused_for_two_nodes() -> None:
    made = plan(replace(FACTS, master_addr="127.0.0.1", master_port=61234))
    assert (made.outcome, made.reason) == ("fail", "BAD_MASTER_ADDR")


@pytest.mark.parametrize(
    "address",
    [
        *("localhost", "LOCALHOST", "a.localhost", "localhost.localdomain"),
        *("ip6-loopback", "127.0.0.1", "127.9.9.9", "::1", "::", "::ffff:127.0.0.1"),
        "0.0.0.0",  # noqa: S104 - an input that has to be refused
    ],
)
def test_every_form_of_loopback_is_known(address: str) -> None:
    made = plan(MASTER_ADDR=address)
    assert (made.outcome, made.reason) == ("fail", "BAD_MASTER_ADDR")
    assert address in made.message


@pytest.mark.parametrize("address", ["n1", "n1.example.org", "10.0.0.1", "2001:db8::1"])
def test_addresses_and_names_of_others_are_kept(address: str) -> None:
    assert plan(MASTER_ADDR=address).keep["MASTER_ADDR"] == address


@pytest.mark.parametrize(
    "address",
    [
        "n1:29500",
        "tcp://n1",
        "[2001:db8::1]",
        "n1 n2",
        "n1\nn2",
        "n[1-2]",
        "-n",
        "(null)",
    ],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    assert plan(MASTER_ADDR=address).reason == "BAD_MASTER_ADDR"


def test_a_name_that_does_not_resolve_everywhere_is_refused() -> None:
    facts = replace(ANNOUNCED, resolvable=["n1-ib"])
    assert plan(facts, MASTER_ADDR="n1-ib").outcome == "inject"
    assert plan(facts, MASTER_ADDR="10.9.9.9").outcome == "inject"
    assert "n1-eth" in plan(facts, MASTER_ADDR="n1-eth").message


def test_a_user_whose_own_node_is_its_loopback_is_warned_others_are_refused() -> None:
    own = replace(FACTS, resolved=[("n1", "n1", ["127.0.1.1"])])
    assert plan(own, MASTER_ADDR="n1").warnings == ("MASTER_LOOPBACK",)
    other = replace(FACTS, resolved=[("n2", "n1", ["127.0.0.1"])])
    assert "node n2" in plan(other, MASTER_ADDR="n1").message


def test_two_tasks_on_one_gpu_are_named_and_refused_when_health_is_required() -> None:
    facts = replace(ANNOUNCED, local_gpus={0: ["GPU-a"], 1: ["GPU-a"]})
    made = plan(facts)
    assert "DUPLICATE_GPU" in made.warnings
    for part in ("rank 2 (LOCAL_RANK 0)", "rank 3 (LOCAL_RANK 1)", "GPU-a"):
        assert part in made.message
    made = plan(replace(facts, gpus_required=True))
    assert (made.outcome, made.exit_code) == ("fail", 69)
    assert "GPU-a" in made.message


@pytest.mark.parametrize(
    "gpus",
    [
        {0: ["GPU-a"], 1: ["GPU-b"]},
        {0: ["GPU-a", "GPU-b"], 1: ["GPU-a", "GPU-b"]},
        {0: [], 1: []},
        {0: ["MIG-a"], 1: ["MIG-b"]},
    ],
)
def test_tasks_with_their_own_gpus_are_not_accused(gpus: dict[int, list[str]]) -> None:
    assert "DUPLICATE_GPU" not in plan(replace(ANNOUNCED, local_gpus=gpus)).warnings


def test_cuda_visible_devices_is_never_in_a_plan() -> None:
    made = plan(CUDA_VISIBLE_DEVICES="3,1")
    assert "CUDA_VISIBLE_DEVICES" not in {*made.set, *made.keep, *made.unset}


def test_a_layout_names_rank_0_and_the_tasks_of_a_het_node() -> None:
    facts = replace(FACTS, rank_node=["n2", "n2", "n1", "n1"])
    made = plan(facts, SLURM_HET_SIZE="2", SLURM_GTIDS=None, SLURMD_NODENAME=None)
    assert made.set["MASTER_ADDR"] == "n2"
    assert made.set["LOCAL_WORLD_SIZE"] == "2"


@pytest.mark.parametrize(
    "mark",
    [
        {"SLURM_HET_SIZE": "2"},
        {"SLURM_HET_SIZE": "junk"},
        {"SLURM_JOB_ID_HET_GROUP_0": "7"},
        {"SLURM_DISTRIBUTION": "arbitrary"},
        {"SLURM_HOSTFILE": "/scratch/hosts"},
    ],
)
def test_where_list_order_is_not_rank_order_nothing_is_guessed(
    mark: dict[str, str],
) -> None:
    assert plan(FACTS, **mark).reason == "RANK0_UNKNOWN"
    # The tasks of rank 0's node do know, and so does everyone after the announcement.
    assert plan(ANNOUNCED, **mark).outcome == "inject"


def test_the_largest_step_is_planned() -> None:
    made = plan(
        FACTS,
        SLURM_STEP_NODELIST="n[1-16384]",
        SLURM_STEP_NUM_NODES="16384",
        SLURM_STEP_NUM_TASKS="131072",
        SLURM_STEP_TASKS_PER_NODE="8(x16384)",
        SLURM_PROCID="131071",
        SLURM_LOCALID="7",
        SLURM_NODEID="16383",
        SLURMD_NODENAME="n16384",
        SLURM_GTIDS=None,
    )
    assert made.set["WORLD_SIZE"] == "131072"
    assert made.set["MASTER_ADDR"] == "n1"
