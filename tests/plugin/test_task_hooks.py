"""What a task gets, and what it may notice of the wait: nothing."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from plugin.fakeslurm import Run, Slurm

CYCLIC = {"n001": "0,3", "n002": "1,4", "n003": "2,5"}
UNEVEN = {"n001": "1,2,3", "n002": "0", "n003": "4,5"}
PAIR = {"n001": "0", "n002": "1"}
OURS = {
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK",
    "MASTER_ADDR", "MASTER_PORT", "GANGSTART_REPORT", "GANGSTART_STEP", "GANGSTART_T0",
    "GANGSTART_MASTER",
}  # fmt: skip
EXIT_75 = 75 << 8


def placed(nodes: dict[str, str]) -> dict[int, tuple[int, int, int]]:
    """Rank -> node index, local rank, tasks on the node."""
    found = {}
    for index, text in enumerate(nodes.values()):
        ranks = [int(r) for r in text.split(",")]
        for local, rank in enumerate(ranks):
            found[rank] = (index, local, len(ranks))
    return found


def ends_within(pid_fd: int, seconds: float) -> bool:
    return bool(select.select([pid_fd], [], [], seconds)[0])


def waiting(slurm: Slurm, *options: str) -> Run:
    """A step of which rank 0 waits at the barrier, since rank 1 does not come."""
    run = slurm.srun("--gang-start=60", *options, nodes=PAIR, ranks={1: "never"})
    run.await_barrier(0)
    return run


@pytest.mark.parametrize("nodes", [CYCLIC, UNEVEN], ids=["cyclic", "uneven"])
def test_each_task_gets_exactly_the_variables_of_its_place(
    slurm: Slurm, nodes: dict[str, str]
) -> None:
    assert slurm.srun(nodes=nodes).finish() == 0

    assert slurm.ran() == [0, 1, 2, 3, 4, 5]
    first = slurm.found(0)["env"]
    port, time = first["MASTER_PORT"], first["GANGSTART_T0"]
    address = slurm.report()["master"]["address"]
    for rank, (node, local, locals_) in placed(nodes).items():
        env = slurm.found(rank)["env"]
        assert {k: v for k, v in env.items() if k in OURS} == {
            "RANK": str(rank),
            "LOCAL_RANK": str(local),
            "WORLD_SIZE": "6",
            "LOCAL_WORLD_SIZE": str(locals_),
            "NODE_RANK": str(node),
            "GROUP_RANK": str(node),
            "MASTER_ADDR": address,
            "MASTER_PORT": port,
            "GANGSTART_REPORT": f"{slurm.step}/sys/start.json",
            "GANGSTART_STEP": "7877.0",
            "GANGSTART_T0": time,
            "GANGSTART_MASTER": f"{address} {port}",
        }


def test_a_task_has_what_it_would_have_had_and_our_variables(slurm: Slurm) -> None:
    slurm.srun("", nodes=PAIR).finish()
    without = slurm.found(1)["env"]

    slurm.srun(nodes=PAIR).finish()
    env = slurm.found(1)["env"]

    assert {k: v for k, v in env.items() if k not in OURS} == without
    assert set(env) == set(without) | OURS


def test_a_task_runs_with_the_name_signals_and_descriptors_it_came_with(
    slurm: Slurm,
) -> None:
    assert slurm.srun(nodes=CYCLIC).finish() == 0

    for rank in range(6):
        found = slurm.found(rank)
        assert (found["changed"], found["fds"]) == ("", [0, 1, 2])


def test_the_master_port_is_free_the_moment_rank_0_runs(slurm: Slurm) -> None:
    assert slurm.srun(nodes=UNEVEN).finish() == 0

    assert slurm.found(0)["bind"] == 0


def test_the_key_is_nowhere_to_be_read(slurm: Slurm) -> None:
    run = slurm.srun(nodes=PAIR, ranks={0: "stdin", 1: "stdin"})
    run.wait_for("ran", rank=0)
    run.wait_for("ran", rank=1)
    pids = [run.pid, *(e["pid"] for e in run.events if "pid" in e)]
    paths = [Path(f"/proc/{p}/{f}") for p in pids for f in ("cmdline", "environ")]
    seen = b"".join(path.read_bytes() for path in paths)
    assert run.finish() == 0

    written = [path for path in slurm.folder.rglob("*") if path.is_file()]
    seen += b"".join(path.read_bytes() for path in written)
    seen += run.stderr.encode() + str(run.all("log")).encode()
    key = run.wait_for("rdzv")["text"].split(":")[5]
    assert len(key) == 64
    assert "start.json" in {path.name for path in written}
    assert key.encode() not in seen
    assert bytes.fromhex(key) not in seen
    assert b"SLURM_GANG_" not in seen


def test_what_an_outer_gang_start_left_behind_does_not_reach_an_inner_one(
    slurm: Slurm,
) -> None:
    slurm.srun("--gang-start", "--step", "3", nodes=PAIR).finish()
    outer = slurm.found(1)["env"]

    slurm.srun("--gang-start", "--step", "4", nodes=PAIR, env=outer).finish()
    inner = slurm.found(0)["env"]

    assert inner["GANGSTART_STEP"] == "7877.4"
    assert (outer["RANK"], inner["RANK"]) == ("1", "0")
    assert inner["MASTER_PORT"] != outer["MASTER_PORT"]


def test_the_users_master_addr_and_port_are_kept(slurm: Slurm) -> None:
    slurm.srun(nodes=PAIR).finish()
    chosen = slurm.found(0)["env"]
    own = {name: chosen[name] for name in ("MASTER_ADDR", "MASTER_PORT")}

    run = slurm.srun(nodes=PAIR, env=own)

    assert run.finish() == 0
    for rank in (0, 1):
        env = slurm.found(rank)["env"]
        assert {k: env[k] for k in own} == own
    assert "(MASTER_ADDR is yours)" in run.stderr


def test_a_waiting_task_that_is_asked_to_end_ends_as_if_by_that_signal(
    slurm: Slurm,
) -> None:
    run = waiting(slurm)

    os.kill(run.task(0), signal.SIGTERM)

    asked = time.monotonic()

    assert run.status(0) == 143 << 8
    assert time.monotonic() - asked < 1


def test_a_signal_that_slurmstepd_would_swallow_ends_a_waiting_task(
    slurm: Slurm,
) -> None:
    # The fake slurmstepd leaves a handler for it, as that of Slurm 24.11 does.
    run = waiting(slurm)

    os.kill(run.task(0), signal.SIGUSR1)

    assert run.status(0) == signal.SIGUSR1


def test_a_refused_start_ends_the_waiting_tasks_with_75(slurm: Slurm) -> None:
    run = waiting(slurm)

    os.kill(run.task(1), signal.SIGABRT)

    assert run.status(0) == EXIT_75
    assert run.finish() == 75
    assert slurm.ran() == []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGABRT])
def test_a_waiting_task_does_not_outlive_its_slurmstepd(
    slurm: Slurm, how: signal.Signals
) -> None:
    run = waiting(slurm)
    stepd = run.wait_for("stepd", node="n001")["pid"]
    with closing(os.fdopen(os.pidfd_open(run.task(0)))) as task:
        os.kill(stepd, how)

        assert ends_within(task.fileno(), 1.0)
    os.kill(run.task(1), signal.SIGABRT)
    assert run.finish() == 75
    assert slurm.ran() == []


def test_a_waiting_task_can_be_killed_under_a_name_of_its_own(slurm: Slurm) -> None:
    run = waiting(slurm)  # by the name it waits under: see await_barrier()

    os.kill(run.task(0), signal.SIGKILL)

    assert run.status(0) == signal.SIGKILL


def test_a_second_slurmstepd_of_the_step_does_not_get_the_first_ones_port(
    slurm: Slurm,
) -> None:
    ports = []
    for _ in range(2):
        run = slurm.srun(nodes={"n001": "0"}, ranks={0: "stdin"})
        run.wait_for("ran", rank=0)
        ports.append(slurm.found(0)["env"]["MASTER_PORT"])

    # The first has been given up for its program, which has not bound it yet.
    assert ports[0] != ports[1]


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_the_report_can_be_read_by_the_task_whatever_its_umask(
    slurm: Slurm, mask: int
) -> None:
    assert slurm.srun(nodes={"n001": "0"}, umask=mask).finish() == 0

    modes = {
        path.name: oct(path.stat().st_mode & 0o777)
        for path in (slurm.spool, slurm.step, *slurm.step.rglob("*"))
    }
    assert modes == {
        "spool": "0o755",
        "7877.0": "0o755",
        "sys": "0o755",
        "user": "0o755",
        "start.json": "0o644",
    }


def test_the_port_locks_are_roots(slurm: Slurm) -> None:
    with closing(socket.create_server(("", 0))) as server:
        port = server.getsockname()[1]
    flag = f"--gang-start=master-port={port}"
    run = slurm.srun(flag, nodes={"n001": "0"}, ranks={0: "stdin"}, umask=0)
    run.wait_for("ran", rank=0)
    lock = slurm.spool / f"port.{port}"
    found = lock.lstat()
    assert run.finish() == 0

    assert (oct(found.st_mode & 0o777), found.st_uid) == ("0o600", os.geteuid())
    assert not lock.exists()
    # A link in its place is no lock: the start goes on without one.
    aim = slurm.folder / "aim"
    lock.symlink_to(aim)
    assert slurm.srun(flag, "--step", "1", nodes={"n001": "0"}).finish() == 0
    assert slurm.found(0)["env"]["MASTER_PORT"] == str(port)
    assert not aim.exists()
