"""How a whole step ends: srun's exit code, its lines, and who is named in them."""

from __future__ import annotations

import json
import os
import signal
import socket
from contextlib import closing
from typing import TYPE_CHECKING

import gangstart
import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from plugin.fakeslurm import Event, Run, Slurm

PAIR = {"n001": "0", "n002": "1"}
THREE = {"n001": "0,1", "n002": "2,3", "n003": "4,5"}


def blamed(run: Run) -> list[str]:
    """The lines of a refusal that name a node."""
    return [line for line in run.lines if line.startswith("  n0")]


def test_a_good_start_is_one_line_and_the_tasks_own_exit_code(slurm: Slurm) -> None:
    run = slurm.srun(nodes=THREE, ranks={3: "then:5"})

    assert run.finish() == 5
    (line,) = run.lines
    assert line.startswith("gang-start: 6/6 tasks on 3/3 nodes in ")
    assert f"master n001:{slurm.found(0)['env']['MASTER_PORT']}" in line


def test_a_step_that_does_not_ask_is_left_alone(slurm: Slurm) -> None:
    run = slurm.srun("", nodes=PAIR, ranks={1: "then:7"})

    assert run.finish() == 7
    assert (run.stderr, slurm.ran(), run.all("rdzv")) == ("", [0, 1], [])
    assert not slurm.spool.exists()
    assert not [name for name in slurm.found(0)["env"] if "GANG" in name]


def test_a_missing_state_folder_is_made_but_a_missing_home_is_not(
    slurm: Slurm, tmp_path: Path
) -> None:
    state, home = tmp_path / "new" / "state", tmp_path / "no-home"
    for env in ({"XDG_STATE_HOME": str(state)}, {"HOME": str(home)}):
        run = slurm.srun("--gang-start=20", nodes=PAIR, env=env)
        assert run.finish() == 0, run.stderr

    assert len(list((state / "gangstart").rglob("*.json"))) == 1
    assert not home.exists()


@pytest.mark.parametrize(
    ("flag", "env"),
    [("--gang-start=off", {}), ("", {"SLURM_GANG_START": "off"})],
    ids=["flag", "variable"],
)
def test_off_wins_over_a_site_that_says_always(
    slurm: Slurm, flag: str, env: dict[str, str]
) -> None:
    run = slurm.srun(flag, nodes=PAIR, env=env, args=["auto=always"])

    assert run.finish() == 0
    assert (run.stderr, slurm.ran()) == ("", [0, 1])


@pytest.mark.parametrize(
    ("flag", "env", "args"),
    [
        ("--gang-start", {}, []),
        ("", {"SLURM_GANG_START": "on"}, []),
        ("", {}, ["auto=always"]),
        ("", {"SLURM_JOB_GPUS": "0"}, ["auto=gpu"]),
    ],
    ids=["flag", "variable", "always", "gpu"],
)
def test_it_can_be_asked_for_in_four_ways(
    slurm: Slurm, flag: str, env: dict[str, str], args: list[str]
) -> None:
    run = slurm.srun(flag, nodes=PAIR, env=env, args=args)

    assert run.finish() == 0
    assert run.stderr.startswith("gang-start: 2/2 tasks")


def test_the_flag_wins_over_the_variable_and_the_variable_over_the_site(
    slurm: Slurm,
) -> None:
    run = slurm.srun(
        "--gang-start=timeout=30",
        nodes=PAIR,
        env={"SLURM_GANG_START": "timeout=20,slack=9"},
        args=["timeout=10", "slack=5", "env=none"],
    )

    assert run.finish() == 0
    spec = slurm.report()["spec"]
    assert "timeout=30" in spec
    assert "slack=9" in spec
    assert "env=none" in spec


@pytest.mark.parametrize(
    ("fate", "how"),
    [
        ("exit:0", "exit code 0"),
        ("exit:3", "exit code 3"),
        ("kill:9", "signal 9 (Killed)"),
        ("kill:11", "signal 11 (Segmentation fault)"),
    ],
)
def test_a_task_that_ends_before_the_start_refuses_it_at_once(
    slurm: Slurm, fate: str, how: str
) -> None:
    # The address sanitizer would make an exit code of a segmentation fault.
    env = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":handle_segv=0"}
    run = slurm.srun("--gang-start=60", nodes=THREE, ranks={3: fate}, env=env)

    assert run.finish() == 75
    (line,) = blamed(run)
    assert run.seconds() < 2
    assert line.split()[0] == "n002"
    assert f"rank 3: {how}" in line
    assert slurm.ran() == []


def test_a_node_that_never_comes_is_named_at_the_timeout_and_nobody_else(
    slurm: Slurm,
) -> None:
    run = slurm.srun("--gang-start=timeout=1", nodes={**THREE, "n003": "4,5:failed"})

    assert run.finish() == 75
    assert run.lines[0].startswith("gang-start: step 7877.0 refused after 1 s: ")
    (line,) = blamed(run)
    assert "n003" in line
    assert "ranks 4-5" in line
    assert "never connected" in line
    assert "n001" not in run.stderr
    assert "n002" not in run.stderr
    assert slurm.ran() == []


def test_a_task_that_never_comes_is_named_at_the_timeout_and_nobody_else(
    slurm: Slurm,
) -> None:
    run = slurm.srun("--gang-start=timeout=1", nodes=THREE, ranks={2: "never"})
    status = run.status(0)
    os.kill(run.task(2), signal.SIGKILL)

    assert status == 75 << 8
    assert run.finish() == 75
    (line,) = blamed(run)
    assert line.split()[0] == "n002"
    assert "rank 2 not started" in line


def test_an_srun_that_hangs_in_its_launch_is_ended_by_the_plugin(slurm: Slurm) -> None:
    nodes = {**THREE, "n003": "4,5:silent"}
    run = slurm.srun("--gang-start=60", nodes=nodes, ranks={1: "exit:1"})

    assert run.finish() == 75
    assert run.all("srun") == []  # it never came to its own end
    assert "rank 1: exit code 1" in run.stderr


def test_an_slurmstepd_that_gives_up_before_the_fork_refuses_the_start(
    slurm: Slurm,
) -> None:
    nodes = {"n001": "0", "n002": "1:unforked"}
    run = slurm.srun("--gang-start=60", nodes=nodes)

    assert run.status(0) == 75 << 8
    assert run.seconds() < 2
    assert run.finish() == 75
    (line,) = blamed(run)
    assert line.split()[0] == "n002"
    assert "slurmstepd ended before it released its tasks" in line


def test_a_cancelled_step_keeps_its_own_code_and_nobody_is_blamed(slurm: Slurm) -> None:
    ranks = {5: "never"}
    run = slurm.srun("--gang-start=60", nodes=THREE, ranks=ranks)
    run.await_barrier(0, 1, 2, 3, 4)

    for first in (0, 2, 4):  # each node's tasks are one process group
        os.killpg(run.task(first), signal.SIGKILL)

    assert run.finish() == 137
    assert run.stderr == ""
    assert slurm.report()["outcome"] == "cancelled"


def test_a_step_that_is_asked_to_end_keeps_its_own_code_and_nobody_is_blamed(
    slurm: Slurm,
) -> None:
    nodes = {**THREE, "n003": "4,5:failed"}
    run = slurm.srun("--gang-start=60", nodes=nodes)
    run.await_barrier(0, 1, 2, 3)

    for first in (0, 2):
        os.killpg(run.task(first), signal.SIGTERM)

    assert run.finish() == 143
    assert run.stderr == ""


def kept(slurm: Slurm, nodes: dict[str, str]) -> dict[str, Event]:
    """The report that each node keeps, where spool=…/spool-@."""
    paths = {n: slurm.folder / f"spool-{n}/7877.0/sys/start.json" for n in nodes}
    return {
        name: json.loads(path.read_text(encoding="utf-8"))
        for name, path in paths.items()
        if path.exists()
    }


def test_the_node_of_rank_0_keeps_the_complete_report_and_others_their_own(
    slurm: Slurm,
) -> None:
    nodes = {"n001": "1,2", "n002": "3", "n003": "0"}
    run = slurm.srun(nodes=nodes, args=[f"spool={slurm.folder}/spool-@"])

    assert run.finish() == 0
    reports = kept(slurm, nodes)
    assert reports["n003"] == slurm.report()
    for name in ("n001", "n002"):
        assert reports[name]["complete"] is False
        assert [node["name"] for node in reports[name]["nodes"]] == [name]


def test_one_node_keeps_the_report_of_a_refused_start(slurm: Slurm) -> None:
    nodes = {"n001": "1,2", "n002": "3", "n003": "0"}
    args = [f"spool={slurm.folder}/spool-@"]
    run = slurm.srun("--gang-start=60", nodes=nodes, ranks={1: "exit:1"}, args=args)

    assert run.finish() == 75
    (report,) = kept(slurm, nodes).values()
    assert report == slurm.report()
    assert (report["complete"], report["reason"]) == (True, "task_ended")


def test_a_plugin_that_is_listed_twice_works_once(slurm: Slurm) -> None:
    twice = ["--plugin", str(slurm.plugin)] * 2
    run = slurm.srun("--gang-start", *twice, nodes=THREE)

    assert run.finish() == 0
    assert len(run.all("hook", who="srun", hook="slurm_spank_init")) == 2
    assert len(run.all("hook", hook="slurm_spank_task_init")) == 12
    (line,) = run.lines
    assert line.startswith("gang-start: 6/6 tasks on 3/3 nodes")
    assert slurm.found(5)["env"]["RANK"] == "5"


def test_a_plugin_that_is_listed_twice_refuses_once(slurm: Slurm) -> None:
    twice = ["--plugin", str(slurm.plugin)] * 2
    run = slurm.srun("--gang-start", *twice, nodes=THREE, ranks={3: "exit:3"})

    assert run.finish() == 75
    assert len(blamed(run)) == 1


def test_nodes_tell_their_ranks_where_the_controller_tells_no_layout(
    slurm: Slurm,
) -> None:
    run = slurm.srun("--gang-start", "--no-layout", nodes=THREE, ranks={3: "exit:3"})

    assert run.finish() == 75
    assert "rank 3: exit code 3" in blamed(run)[0]


def test_the_names_are_slurms_where_it_writes_a_folded_list(slurm: Slurm) -> None:
    run = slurm.srun("--gang-start", "--list", "n[001-003]", nodes=THREE)

    assert run.finish() == 0
    assert [node["name"] for node in slurm.report()["nodes"]] == [
        "n001",
        "n002",
        "n003",
    ]


def test_another_version_on_a_node_refuses_the_start_and_names_both(
    slurm: Slurm, old_plugin: Path
) -> None:
    nodes = {"n001": "0", "n002": "1:old"}

    run = slurm.srun("--gang-start=60", "--old-plugin", str(old_plugin), nodes=nodes)

    assert run.finish() == 78
    (line,) = blamed(run)
    assert "n002" in line
    assert f"the plugin is 0.0.9 on n002 and {gangstart.__version__} in srun" in line
    assert slurm.ran() == []


def test_a_master_port_in_use_refuses_the_start_and_names_its_owner(
    slurm: Slurm,
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as busy:
        port = busy.getsockname()[1]
        run = slurm.srun("--gang-start=60", nodes=PAIR, env={"MASTER_PORT": str(port)})

        assert run.finish() == 78
    (line,) = blamed(run)
    assert f"MASTER_PORT {port} cannot be used here" in line
    assert f"held by pid {os.getpid()} (" in line
    assert slurm.ran() == []


def test_an_environment_that_cannot_work_refuses_the_start_with_78(
    slurm: Slurm,
) -> None:
    run = slurm.srun("--gang-start=60", nodes=PAIR, env={"MASTER_PORT": "many"})

    assert run.finish() == 78, run.stderr
    assert "MASTER_PORT" in run.stderr
    assert "many" in run.stderr


def test_two_steps_at_once_get_different_ports(slurm: Slurm) -> None:
    ranks = {0: "stdin", 1: "stdin"}
    runs = [
        slurm.srun("--gang-start", "--step", str(step), nodes=PAIR, ranks=ranks)
        for step in (0, 1)
    ]
    for run in runs:
        run.wait_for("ran", rank=0)

    assert [run.finish() for run in runs] == [0, 0]
    ports = [run.lines[0].rsplit(":", 1)[1] for run in runs]
    assert ports[0] != ports[1]


def test_stale_and_foreign_visitors_do_not_disturb_a_start(slurm: Slurm) -> None:
    run = slurm.srun("--gang-start=60", nodes=PAIR, ranks={1: "never"})
    run.await_barrier(0)
    port = int(run.wait_for("rdzv")["text"].split(":")[1])
    for garbage in (b"", b"GET / HTTP/1.0\r\n\r\n", os.urandom(4096)):
        with closing(socket.create_connection(("127.0.0.1", port))) as visitor:
            visitor.sendall(garbage)
    os.kill(run.task(1), signal.SIGABRT)

    assert run.finish() == 75
    assert "rank 1: signal 6" in run.stderr
    assert len(blamed(run)) == 1
