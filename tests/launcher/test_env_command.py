"""gangstart env: what this task gets, and why."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from gangstart import core, envcommand, job

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TASK = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "1",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NUM_TASKS": "3",
    "SLURM_STEP_TASKS_PER_NODE": "2,1",
    "SLURM_PROCID": "2",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "1",
    "SLURMD_NODENAME": "n2",
    "SLURM_GTIDS": "2",
}
SHELL = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_NODELIST": "n[1-2]",
    "SLURM_TASKS_PER_NODE": "2,1",
}


def run(env: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """The real command in a clean environment."""
    kept = {n: v for n, v in job.child_env().items() if not n.startswith("SLURM")}
    return subprocess.run(
        [sys.executable, "-m", "gangstart", "env", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**kept, **env},
    )


def lines(env: Mapping[str, str], *arguments: str) -> dict[str, str]:
    """What it prints for people, by the part before the reason."""
    shown = run(env, *arguments)
    assert shown.returncode == 0, shown.stderr
    parts = (line.partition("  # ") for line in shown.stdout.splitlines())
    return {words: why for words, _, why in parts}


def document(env: Mapping[str, str], *arguments: str) -> dict[str, Any]:
    """What it prints for programs."""
    shown = run(env, "--json", *arguments)
    assert shown.returncode == 0, shown.stderr
    loaded: dict[str, Any] = json.loads(shown.stdout)
    return loaded


def started(spec: str = "", **changes: str) -> dict[str, str]:
    """The environment of a task that gang start has released."""
    asked = core.parse_spec(spec)
    facts = core.EnvFacts(
        presets=asked.env_presets,
        master_addr="10.0.0.1",
        master_port=41873,
        report="/r/start.json",
        t0=1234.5,
    )
    before = {**TASK, **changes}
    return core.env_plan(before, facts).apply(before)


def test_outside_of_slurm_it_says_where_it_works() -> None:
    shown = run({})
    assert (shown.returncode, shown.stdout) == (78, "")
    assert shown.stderr.count("\n") == 1
    assert "SLURM_JOB_ID is not set" in shown.stderr


def test_a_task_sees_its_variables_and_nothing_else() -> None:
    shown = lines(TASK)
    assert {"RANK=2", "WORLD_SIZE=3", "MASTER_ADDR=n1", "GROUP_RANK=1"} <= set(shown)
    assert set(shown.values()) == {""}
    assert not [words for words in shown if words.startswith("JAX")]


def test_each_reason_names_its_source_and_what_is_still_open() -> None:
    shown = lines(TASK, "--explain", "env=torch+jax")
    assert "SLURM_PROCID" in shown["RANK=2"]
    assert "SLURM_STEP_NUM_TASKS" in shown["JAX_NUM_PROCESSES=3"]
    assert shown["MASTER_ADDR=n1"] == envcommand.OPEN_ADDRESS
    (port,) = (w for w in shown if w.startswith("MASTER_PORT="))
    assert shown[port] == envcommand.OPEN_PORT
    assert "" not in shown.values()


def test_master_port_and_addr_of_the_spec_are_told() -> None:
    shown = lines(TASK, "--explain", "master-port=29500,master-addr=name")
    assert shown["MASTER_PORT=29500"] == "master-port= of the SPEC"
    assert shown["MASTER_ADDR=n1"] == envcommand.OPEN_NAME


def test_a_users_own_value_is_said_to_be_kept() -> None:
    own = {**TASK, "MASTER_ADDR": "n1-ib", "TF_CONFIG": "{'a': 1}"}
    shown = lines(own, "--explain", "env=torch+tensorflow+horovod")
    assert shown["MASTER_ADDR=n1-ib"] == "your own value, kept"
    assert shown["HOROVOD_GLOO_RENDEZVOUS_ADDR=n1-ib"] == "your MASTER_ADDR"
    (quoted,) = (w for w in shown if w.startswith("TF_CONFIG="))
    assert quoted == "TF_CONFIG='{'\"'\"'a'\"'\"': 1}'"
    assert shown[quoted] == "your own value, kept"


def test_the_environments_spec_counts_and_the_argument_wins() -> None:
    asked = {**TASK, "SLURM_GANG_START": "env=jax"}
    assert "JAX_PROCESS_ID=2" in lines(asked)
    assert "JAX_PROCESS_ID=2" not in lines(asked, "env=horovod")
    assert "HOROVOD_RANK=2" in lines(asked, "env=horovod")


def test_in_a_step_that_was_started_it_shows_what_the_start_chose() -> None:
    env = started("env=torch+jax")
    shown = document(env, "env=torch+jax")
    assert shown["started"]
    rows = {row["name"]: row for row in shown["variables"]}
    assert {n: r["value"] for n, r in rows.items()} == {
        n: v for n, v in env.items() if n not in TASK
    }
    assert rows["MASTER_ADDR"]["action"] == "set"
    assert rows["JAX_COORDINATOR_ADDRESS"]["value"] == "10.0.0.1:41873"
    assert rows["MASTER_ADDR"]["why"] == "where rank 0 listens"


def test_there_too_the_users_own_is_told_from_the_starts() -> None:
    env = started("env=torch+jax", MASTER_PORT="29500", JAX_LOCAL_DEVICE_IDS="1")
    rows = {r["name"]: r for r in document(env, "env=torch+jax")["variables"]}
    kept = {n for n, row in rows.items() if row["action"] == "keep"}
    assert kept == {"MASTER_PORT", "JAX_LOCAL_DEVICE_IDS"}


def test_what_an_outer_step_left_is_shown_as_removed() -> None:
    env = {**started("env=horovod"), "SLURM_STEP_ID": "2"}
    shown = lines(env, "--explain")
    assert shown["unset HOROVOD_RANK"] == "left by the gang start of another step"


def test_in_a_jobs_shell_it_is_rank_0_of_the_whole_job() -> None:
    shown = document(SHELL, "env=torch+tensorflow")
    assert (shown["shell"], shown["step"], shown["rank"]) == (True, None, 0)
    values = {r["name"]: r["value"] for r in shown["variables"]}
    assert (values["WORLD_SIZE"], values["LOCAL_WORLD_SIZE"]) == ("3", "2")
    assert len(json.loads(values["TF_CONFIG"])["cluster"]["worker"]) == 3
    batch = {**SHELL, "SLURM_PROCID": "0", "SLURM_GTIDS": "0"}
    assert document(batch)["shell"]
    assert "rank 0 in a step of 3 tasks" in run(SHELL).stderr


def test_a_shell_that_does_not_know_its_nodes_is_told_to_use_srun() -> None:
    shown = run({"SLURM_JOB_ID": "7"})
    assert (shown.returncode, shown.stdout) == (78, "")
    assert "run it by srun" in shown.stderr


def test_a_refused_plan_and_a_bad_spec_are_one_sentence_with_78() -> None:
    for env, spec in (
        ({**TASK, "MASTER_ADDR": "localhost"}, "on"),
        (TASK, "env=mxnet"),
        ({**TASK, "SLURM_DISTRIBUTION": "arbitrary"}, "env=tensorflow"),
    ):
        shown = run(env, "--json", spec)
        assert (shown.returncode, shown.stdout) == (78, "")
        assert shown.stderr.count("\n") == 1


def test_switched_off_it_sets_nothing_and_says_so() -> None:
    shown = run(TASK, "off")
    assert (shown.returncode, shown.stdout) == (0, "")
    assert "gang start is off" in shown.stderr


def test_warnings_go_to_standard_error() -> None:
    shown = run({**TASK, "SLURM_NTASKS": "8"})
    assert "SLURM_NTASKS=8" in shown.stderr
    assert "WORLD_MISMATCH" in document({**TASK, "SLURM_NTASKS": "8"})["warnings"]


def test_the_sites_defaults_count_and_the_environment_wins(tmp_path: Path) -> None:
    conf = tmp_path / "plugstack.conf"
    conf.write_text("optional /x/spank_gangstart.so env=torch+jax master-port=29501\n")
    site = {**TASK, "SLURM_CONF": str(tmp_path / "slurm.conf")}
    assert {"JAX_PROCESS_ID=2", "MASTER_PORT=29501"} <= set(lines(site))
    own = {**site, "SLURM_GANG_START": "master-port=29502"}
    assert {"JAX_PROCESS_ID=2", "MASTER_PORT=29502"} <= set(lines(own))
    conf.write_text("optional /x/spank_gangstart.so timeout=never\n")
    wrong = run(site)
    assert (wrong.returncode, wrong.stdout) == (78, "")
    assert "plugstack.conf: timeout=never" in wrong.stderr
