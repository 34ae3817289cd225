"""The presets: what each framework's task gets, kept, left out and removed again."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from gangstart import core
from gangstart._core import ffi, lib
from gangstart.errors import GangstartError
from gangstart.record import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMES = (
    *("torch", "horovod", "tensorflow", "jax"),
    *("deepspeed", "accelerate", "lightning"),
)
PLACE = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "61234"}
OURS = {"GANGSTART_STEP": "7.1", "GANGSTART_MASTER": "10.0.0.1 61234"}
ANNOUNCED = core.EnvFacts(step="7.1", master_addr="10.0.0.1", master_port=61234)
INNER = replace(ANNOUNCED, step="7.2")
NONE: Mapping[str, str | None] = {}
BLOCK = [[0, 1, 2], [3, 4]]  # ranks of n1 and of n2


def slurm(layout: list[list[int]], rank: int, **changes: str | None) -> dict[str, str]:
    """Slurm's variables of one task; layout: the ranks of each node."""
    node = next(i for i, ranks in enumerate(layout) if rank in ranks)
    env = {
        "SLURM_JOB_ID": "7",
        "SLURM_STEP_ID": "1",
        "SLURM_STEP_NODELIST": f"n[1-{len(layout)}]" if len(layout) > 1 else "n1",
        "SLURM_STEP_NUM_NODES": str(len(layout)),
        "SLURM_STEP_NUM_TASKS": str(sum(map(len, layout))),
        "SLURM_STEP_TASKS_PER_NODE": ",".join(str(len(ranks)) for ranks in layout),
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(layout[node].index(rank)),
        "SLURM_NODEID": str(node),
        "SLURMD_NODENAME": f"n{node + 1}",
        "SLURM_GTIDS": ",".join(map(str, layout[node])),
        **{name: value or "" for name, value in changes.items()},
    }
    return {k: v for k, v in env.items() if changes.get(k, "") is not None}


def facts(env: str, base: core.EnvFacts = ANNOUNCED) -> core.EnvFacts:
    """What is known of a step that asked for these presets."""
    spec = core.parse_spec(f"env={env}")
    return replace(base, presets=spec.env_presets, without=spec.env_without)


def given(
    env: str, rank: int = 3, changes: Mapping[str, str | None] = NONE
) -> core.EnvPlan:
    """The plan for a rank of the uneven step."""
    return core.env_plan(slurm(BLOCK, rank, **changes), facts(env))


def tf_config(plan: core.EnvPlan) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(plan.set["TF_CONFIG"])
    return loaded


TORCH = {
    "RANK": "3",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "5",
    "LOCAL_WORLD_SIZE": "2",
    "NODE_RANK": "1",
    "GROUP_RANK": "1",
    **PLACE,
}
EXPECTED: dict[str, Mapping[str, str]] = {
    "torch": TORCH,
    "accelerate": TORCH,
    "lightning": TORCH,
    "deepspeed": {**TORCH, "LOCAL_SIZE": "2", "CROSS_RANK": "1", "CROSS_SIZE": "2"},
    "horovod": {
        "HOROVOD_RANK": "3",
        "HOROVOD_SIZE": "5",
        "HOROVOD_LOCAL_RANK": "0",
        "HOROVOD_LOCAL_SIZE": "2",
        "HOROVOD_CROSS_RANK": "1",
        "HOROVOD_CROSS_SIZE": "2",
        "HOROVOD_HOSTNAME": "n2",
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "10.0.0.1",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": "61234",
    },
    "jax": {
        "JAX_COORDINATOR_ADDRESS": "10.0.0.1:61234",
        "JAX_NUM_PROCESSES": "5",
        "JAX_PROCESS_ID": "3",
    },
}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_each_preset_gives_its_variables_and_no_others(name: str) -> None:
    made = given(name)
    assert (made.outcome, made.keep, made.unset) == ("inject", {}, ())
    assert made.set == {**EXPECTED[name], **OURS}


def test_presets_add_up_and_none_gives_only_ours() -> None:
    made = given("torch+horovod+jax+deepspeed")
    parts = (EXPECTED[n] for n in ("torch", "horovod", "jax", "deepspeed"))
    assert made.set == {k: v for part in (*parts, OURS) for k, v in part.items()}
    assert given("none").set == {"GANGSTART_STEP": "7.1"}


def test_the_table_help_and_errors_name_every_preset() -> None:
    name, bit = ffi.new("char **"), ffi.new("uint32_t *")
    listed = []
    for i in count():
        if not lib.gs_env_preset_next(i, name, bit):
            break
        listed.append(core.text(name[0]))
        assert bit[0] == 1 << i
    assert tuple(listed) == NAMES
    with pytest.raises(GangstartError) as caught:
        core.parse_spec("env=mxnet")
    for one in NAMES:
        assert one in caught.value.message
        assert one in core.spec_help()
    assert caught.value.message.endswith("to leave alone")


def test_every_variable_and_value_has_a_name_and_a_reason() -> None:
    names = [core.text(lib.gs_env_var_name(v)) for v in range(lib.GS_VAR_COUNT)]
    assert len(set(names)) == lib.GS_VAR_COUNT
    for value in range(lib.GS_VALUE_COUNT):
        assert core.text(lib.gs_env_value_why(value))


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("jax+torch", "torch+jax"),
        ("lightning+deepspeed-CROSS_RANK", "deepspeed+lightning-CROSS_RANK"),
        ("jax-JAX_LOCAL_DEVICE_IDS", "jax-JAX_LOCAL_DEVICE_IDS"),
        ("tensorflow+torch-RANK-TF_CONFIG", "torch+tensorflow-RANK-TF_CONFIG"),
        ("+".join(NAMES), "+".join(NAMES)),
    ],
)
def test_a_spec_reads_back_as_its_canonical_text(text: str, canonical: str) -> None:
    spec = core.parse_spec(f"env={text}")
    assert f",env={canonical}," in spec.canonical
    assert core.parse_spec(spec.canonical) == replace(spec, on=spec.on)


@pytest.mark.parametrize(
    "text", ["torch-HOROVOD_RANK", "jax-RANK", "horovod-TF_CONFIG"]
)
def test_only_variables_of_the_presets_asked_for_can_be_left_out(text: str) -> None:
    with pytest.raises(GangstartError):
        core.parse_spec(f"env={text}")


def test_every_variable_can_be_left_out_and_all_at_once_still_fit_a_spec() -> None:
    every = [
        core.text(lib.gs_env_var_name(v))
        for v in range(lib.GS_VAR_COUNT)
        if lib.gs_env_var_presets(v)
    ]
    env = "+".join(NAMES) + "".join(f"-{n}" for n in every)
    spec = core.parse_spec(f"env={env}")
    assert core.parse_spec(spec.canonical).env_without == spec.env_without
    assert given(env).set == {"GANGSTART_STEP": "7.1"}


@pytest.mark.parametrize("leave", ["HOROVOD_CONTROLLER", "HOROVOD_CROSS_SIZE"])
def test_a_left_out_variable_is_the_users_whatever_it_says(leave: str) -> None:
    made = given(f"horovod-{leave}", 3, {leave: "mine"})
    assert leave not in {**made.set, **made.keep}
    assert len(made.set) == len(EXPECTED["horovod"]) - 1 + len(OURS)


CHOICES: dict[str, str | None] = {
    "HOROVOD_CONTROLLER": "mpi",
    "HOROVOD_GLOO_RENDEZVOUS_PORT": "4711",
    "JAX_COORDINATOR_ADDRESS": "n1-ib:4712",
    "JAX_LOCAL_DEVICE_IDS": "0,1",
    "TF_CONFIG": "{}",
}
ALL = "torch+horovod+tensorflow+jax"


def test_a_users_choices_are_kept_and_named() -> None:
    made = given(ALL, 3, CHOICES)
    assert made.keep == CHOICES
    assert made.set["GANGSTART_KEPT"].split() == list(CHOICES)
    assert made.warnings == ("UNEVEN_TASKS",)


def test_what_is_a_fact_is_replaced_with_a_warning() -> None:
    made = given("horovod", 3, {"HOROVOD_RANK": "9", "HOROVOD_SIZE": "99"})
    assert made.set["HOROVOD_RANK"] == "3"
    assert {"ENV_REPLACED", "WORLD_MISMATCH"} <= set(made.warnings)
    assert "HOROVOD_RANK=9 was set before; the step's value is 3" in made.message


def test_an_inner_step_keeps_the_users_choices_and_removes_the_rest() -> None:
    outer = slurm(BLOCK, 3, **CHOICES)
    inside = {**given(ALL, 3, CHOICES).apply(outer), "SLURM_STEP_ID": "2"}
    kept = core.env_plan(inside, facts(ALL, INNER))
    assert kept.keep == CHOICES
    off = core.env_plan(inside, replace(facts("none", INNER), gang_on=False))
    assert not set(off.unset) & set(CHOICES)
    assert {"RANK", "HOROVOD_RANK", "JAX_PROCESS_ID", "GANGSTART_KEPT"} <= set(
        off.unset
    )
    assert sorted(core.env_stale(inside)) == sorted(off.unset)


def test_an_inner_step_takes_nothing_of_an_outer_for_the_users() -> None:
    outer = slurm(BLOCK, 3)
    inside = {**given(ALL).apply(outer), "SLURM_STEP_ID": "2"}
    assert "GANGSTART_KEPT" not in inside
    other = facts(ALL, replace(INNER, master_addr="10.0.0.9", master_port=2000))
    made = core.env_plan(inside, other)
    assert made.keep == {}
    assert made.set["JAX_COORDINATOR_ADDRESS"] == "10.0.0.9:2000"
    bare = core.env_plan(inside, facts("none", INNER))
    gone = {n for n in given(ALL).set if not n.startswith("GANGSTART_")}
    assert gone <= set(bare.unset)


def test_planning_twice_in_one_step_keeps_apart_what_was_the_users() -> None:
    env = slurm(BLOCK, 3, JAX_COORDINATOR_ADDRESS="n1-ib:4712")
    first = core.env_plan(env, facts("horovod+jax"))
    again = core.env_plan(first.apply(env), facts("horovod+jax"))
    assert (again.set, again.keep) == (first.set, first.keep)


@pytest.mark.parametrize(
    ("rank", "cross"), [(0, "0/2"), (1, "0/2"), (2, "0/1"), (3, "1/2"), (4, "1/2")]
)
def test_cross_ranks_count_only_nodes_that_have_the_local_rank(
    rank: int, cross: str
) -> None:
    made = given("horovod", rank).set
    assert f"{made['HOROVOD_CROSS_RANK']}/{made['HOROVOD_CROSS_SIZE']}" == cross


@pytest.mark.parametrize("changes", [{"SLURM_STEP_TASKS_PER_NODE": None}])
def test_unknown_cross_ranks_refuse_the_start_and_say_what_to_leave_out(
    changes: dict[str, str | None],
) -> None:
    made = given("horovod", 3, changes)
    assert (made.outcome, made.exit_code, made.set) == ("fail", 78, {})
    assert "env=horovod-HOROVOD_CROSS_RANK-HOROVOD_CROSS_SIZE" in made.message
    left = "horovod-HOROVOD_CROSS_RANK-HOROVOD_CROSS_SIZE"
    assert given(left, 3, changes).outcome == "inject"


def test_in_a_heterogeneous_step_the_node_is_found_by_its_name() -> None:
    # The list is sorted; component 0 is n2, component 1 is n1.
    env = slurm([[1, 2], [0]], 0, SLURM_HET_SIZE="2", SLURM_NODEID="0")
    made = core.env_plan(env, facts("horovod+jax"))
    assert made.set["HOROVOD_CROSS_RANK"] == "1"
    assert made.set["HOROVOD_CROSS_SIZE"] == "2"
    assert made.set["JAX_PROCESS_ID"] == "0"
    refused = core.env_plan(env, facts("tensorflow"))
    assert (refused.outcome, refused.exit_code) == ("fail", 78)
    assert "heterogeneous" in refused.message


def test_an_ipv6_coordinator_has_brackets() -> None:
    made = core.env_plan(
        slurm(BLOCK, 0), facts("jax", replace(ANNOUNCED, master_addr="fd00::1"))
    )
    assert made.set["JAX_COORDINATOR_ADDRESS"] == "[fd00::1]:61234"


@pytest.mark.parametrize(
    ("devices", "expected"), [("3", "0"), ("2,3", None), (None, None), ("", None)]
)
def test_jax_is_told_the_device_where_slurms_number_would_be_wrong(
    devices: str | None, expected: str | None
) -> None:
    env = slurm(BLOCK, 4, CUDA_VISIBLE_DEVICES=devices)
    made = core.env_plan(env, facts("jax"))
    assert made.set.get("JAX_LOCAL_DEVICE_IDS") == expected


def test_tensorflow_gets_every_tasks_node_and_port_and_its_own_number() -> None:
    configs = [tf_config(given("tensorflow", rank)) for rank in range(5)]
    workers = configs[0]["cluster"]["worker"]
    assert [w.split(":")[0] for w in workers] == ["n1", "n1", "n1", "n2", "n2"]
    assert len(set(workers)) == 5
    for rank, config in enumerate(configs):
        assert config["cluster"] == {"worker": workers}
        assert config["task"] == {"type": "worker", "index": rank}
    assert set(given("tensorflow").set) == {"TF_CONFIG", *OURS}


def test_tensorflows_ports_follow_master_port_in_the_steps_order() -> None:
    order = core.port_candidates(core.PortRules(), 7, 1)
    first = [next(order) for _ in range(6)]
    at = replace(facts("tensorflow"), master_port=first[1])
    workers = tf_config(core.env_plan(slurm(BLOCK, 0), at))["cluster"]["worker"]
    ports = [int(w.split(":")[1]) for w in workers]
    assert ports == [*first[2:5], *first[2:4]]


def test_tensorflows_ports_come_from_the_sites_and_spare_master_port() -> None:
    inside = range(20000, 20004)
    at = replace(facts("tensorflow"), ports=(20000, 20003), master_port=20002)
    workers = tf_config(core.env_plan(slurm(BLOCK, 0), at))["cluster"]["worker"]
    ports = {int(w.split(":")[1]) for w in workers}
    assert ports == set(inside) - {20002}
    for master in (20002, 65535):  # the latter is still to be chosen from them
        short = replace(at, ports=(20000, 20002), master_port=master)
        few = core.env_plan(slurm(BLOCK, 0), short)
        assert (few.outcome, few.exit_code) == ("fail", 78)
        assert "TF_CONFIG needs 3 ports beside MASTER_PORT" in few.message
        assert "there are 2" in few.message


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ([[0, 2, 4], [1, 3]], {"SLURM_DISTRIBUTION": "cyclic"}),
        ([[0, 2], [1, 3, 4]], {"SLURM_DISTRIBUTION": "cyclic:block,NoPack"}),
        ([[0, 1, 2], [3, 4]], {"SLURM_DISTRIBUTION": "block:cyclic"}),
        ([[0, 1, 4], [2, 3]], {"SLURM_DISTRIBUTION": "plane=2"}),
        (
            [[0, 1, 4], [2, 3]],
            {"SLURM_DISTRIBUTION": "plane", "SLURM_DIST_PLANESIZE": "2"},
        ),
    ],
)
def test_tensorflows_list_is_in_rank_order_however_ranks_are_dealt(
    layout: list[list[int]], words: dict[str, str]
) -> None:
    made = core.env_plan(slurm(layout, 3, **words), facts("tensorflow"))
    workers = tf_config(made)["cluster"]["worker"]
    for node, ranks in enumerate(layout):
        for rank in ranks:
            assert workers[rank].startswith(f"n{node + 1}:")


@pytest.mark.parametrize(
    "words",
    [
        {"SLURM_DISTRIBUTION": "cyclic"},
        {"SLURM_DISTRIBUTION": "arbitrary"},
        {"SLURM_DISTRIBUTION": "plane"},
        {"SLURM_DISTRIBUTION": "odd"},
        {"SLURM_STEP_TASKS_PER_NODE": None},
        {"SLURM_GTIDS": "3,99"},
    ],
)
def test_a_layout_that_is_not_proven_is_refused_but_for_the_users_own(
    words: dict[str, str | None],
) -> None:
    made = given("tensorflow", 3, words)
    assert (made.outcome, made.exit_code, made.set) == ("fail", 78, {})
    assert "env=tensorflow-TF_CONFIG" in made.message
    assert given("tensorflow", 3, {"TF_CONFIG": "{}", **words}).keep == {
        "TF_CONFIG": "{}"
    }
    assert given("tensorflow-TF_CONFIG", 3, words).outcome == "inject"


def large(tasks: int) -> core.EnvPlan:
    layout = [[rank] for rank in range(tasks)]
    return core.env_plan(slurm(layout, tasks - 1), facts("tensorflow"))


def test_a_world_too_large_for_one_variable_is_refused() -> None:
    made = large(5000)
    assert len("TF_CONFIG=" + made.set["TF_CONFIG"]) < 131071
    assert len(tf_config(made)["cluster"]["worker"]) == 5000
    for tasks in (12000, 20000):
        refused = large(tasks)
        assert (refused.outcome, refused.exit_code) == ("fail", 78)
        assert f"TF_CONFIG for {tasks} tasks" in refused.message
        assert "131071" in refused.message
