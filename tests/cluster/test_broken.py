"""Something breaks in the middle of the wait: told if it matters, survived if not."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import slurmroot
from cluster.gang import WAITING, Gang, Ran, Running, refusal, until
from cluster.trouble import NEVER, elapse, job_id, sabotage, victim
from gangstart.cluster import Spec, daemons
from gangstart.cluster.config import HEAD

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.cluster

EVERYBODY = ("-N4", "--ntasks-per-node=2")
PATIENCE = 5.0
HOLD_0 = sabotage("task_init", "0", f"hold={NEVER}")


def start(gang: Gang, *options: str, env: dict[str, str] | None = None) -> Running:
    """Start a step of eight tasks that wait for rank 0, and wait until they do."""
    command = ["srun", *EVERYBODY, "--gang-start=60", *options, *gang.trace()]
    running = gang.start(command, env=env or HOLD_0)
    gang.until_waiting(7)
    return running


def start_held(gang: Gang) -> tuple[Running, Path]:
    """Start one whose rank 0 comes when the file returned is made."""
    late = gang.folder / "late"
    return start(gang, env=sabotage("task_init", "0", f"hold={late}")), late


def check_started(gang: Gang, ran: Ran) -> None:
    """All started, srun told it in one line, and nothing is left."""
    assert ran.code == 0, ran.err
    assert len(ran.told) == 1, ran.err
    assert "8/8 tasks on 4/4 nodes" in ran.told[0]
    assert gang.started() == list(range(8))


def test_a_node_that_is_cut_off_is_named_soon_and_its_tasks_end(
    sabotaged: Gang,
) -> None:
    gang = sabotaged
    running = start(gang)
    gang.cluster.set_cable("n2", up=False)
    cut = time.monotonic() - running.begun
    try:
        ran = running.wait()
        assert refusal(ran)["n2"][0] == "2-3"
        assert "nothing heard for 3 s and nothing acknowledged" in ran.told[1]
        assert ran.when("refused after") - cut < 5
        # They are alone now, and cannot hear that it is refused.
        until(lambda: "n2" not in gang.pids(WAITING).values(), "n2's tasks to end", 15)
        assert gang.pids(WAITING) == {}
    finally:
        gang.cluster.set_cable("n2", up=True)
    gang.clean(35)
    assert gang.started() == []


def test_the_only_task_of_a_node_that_is_killed_is_named(sabotaged: Gang) -> None:
    gang = sabotaged
    command = ["srun", "-N4", "-n4", "--gang-start=60", *gang.trace()]
    running = gang.start(command, env=HOLD_0)
    gang.until_waiting(3)
    pid = victim(gang, WAITING, "n3")
    gang.cluster.run(["kill", "-KILL", str(pid)], node="n3")
    ran = running.wait()
    assert refusal(ran)["n3"][1].endswith("rank 2: signal 9 (Killed)")
    assert ran.seconds < 2 * PATIENCE
    gang.clean(10)
    assert gang.started() == []


def test_ctrl_z_of_srun_costs_nobody_the_start(sabotaged: Gang) -> None:
    gang, late = sabotaged, sabotaged.folder / "late"
    running = gang.start(
        ["srun", *EVERYBODY, "--gang-start=3", *gang.trace()],
        env=sabotage("task_init", "0", f"hold={late}"),
    )
    gang.until_waiting(7)
    running.send(signal.SIGTSTP)
    try:
        until(lambda: letter(running.popen.pid) == "T", "srun to stop", 2)
    except AssertionError:
        late.touch()
        running.wait()
        pytest.skip("the srun of this release is not stopped by Ctrl-Z")
    elapse(4)
    running.send(signal.SIGCONT)
    late.touch()
    check_started(gang, running.wait())
    gang.clean()


def test_rank_0s_node_may_be_slow_to_answer(sabotaged: Gang) -> None:
    # As when every processor of it is busy: the kernel takes connections all the same.
    gang, go_on = sabotaged, sabotaged.folder / "go-on"
    command = ["srun", *EVERYBODY, "--gang-start=60", *gang.trace()]
    running = gang.start(command, env=sabotage("post_opt", "2", f"hold={go_on}"))
    gang.until_waiting(6)
    stepd = victim(gang, "slurmstepd", "n1")
    os.kill(stepd, signal.SIGSTOP)
    try:
        go_on.touch()
        elapse(2)
    finally:
        os.kill(stepd, signal.SIGCONT)
    check_started(gang, running.wait())
    gang.clean()


def letter(pid: int) -> str:
    """State of a process as the kernel has it."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0]


def letters(gang: Gang) -> set[str]:
    """States of the waiting tasks as the kernel has them."""
    return {letter(pid) for pid in gang.pids(WAITING)}


def test_a_job_that_is_suspended_and_resumed_starts(sabotaged: Gang) -> None:
    gang = sabotaged
    running, late = start_held(gang)
    job = job_id(gang)
    assert gang.run(["scontrol", "suspend", job]).code == 0
    until(lambda: letters(gang) == {"T"}, "the tasks to stop")
    assert gang.run(["scontrol", "resume", job]).code == 0
    until(lambda: letters(gang) == {"S"}, "the tasks to go on")
    late.touch()
    check_started(gang, running.wait())
    gang.clean()


def test_a_job_whose_time_is_up_is_not_a_refused_start(sabotaged: Gang) -> None:
    gang = sabotaged
    running = start(gang)
    done = gang.run(["scontrol", "update", f"jobid={job_id(gang)}", "endtime=now"])
    assert done.code == 0, done.err
    ran = running.wait()
    assert "DUE TO TIME LIMIT" in ran.err
    assert ran.told == [], ran.err
    assert ran.code not in {0, 75}
    gang.clean()
    assert gang.started() == []


def test_a_start_needs_no_slurmctld(
    gang_on: Callable[[Spec], Gang], saboteur: str
) -> None:
    gang = gang_on(Spec())
    plugstack = gang.cluster.directory / "etc" / "plugstack.conf"
    plugstack.write_text(f"{saboteur}\n{plugstack.read_text()}")
    running, late = start_held(gang)
    spec = gang.cluster.spec
    pids = gang.cluster.node_pids(HEAD, "slurmctld")
    gang.cluster.run(["kill", "-KILL", *map(str, pids)], node=HEAD)
    until(lambda: not gang.cluster.node_pids(HEAD, "slurmctld"), "its end")
    late.touch()
    until(lambda: gang.started() == list(range(8)), "the start")
    tool = daemons.find_tools(spec.search_path, spec.root)["slurmctld"]
    done = gang.cluster.run([tool], node=HEAD, env=daemons.environment(spec))
    assert done.returncode == 0, done.stderr
    check_started(gang, running.wait())
    gang.clean(35)


def test_a_slurmd_that_is_restarted_during_the_wait_is_no_matter(
    sabotaged: Gang,
) -> None:
    gang = sabotaged
    running, late = start_held(gang)
    gang.cluster.signal_slurmd("n2", "kill")
    gang.cluster.start_slurmd("n2")
    late.touch()
    check_started(gang, running.wait())
    gang.clean(20)


def test_a_slurmd_that_is_dead_during_the_wait_is_no_matter(sabotaged: Gang) -> None:
    gang = sabotaged
    running, late = start_held(gang)
    gang.cluster.signal_slurmd("n2", "kill")
    try:
        late.touch()
        ran = running.wait()
    finally:
        gang.cluster.start_slurmd("n2")
    check_started(gang, ran)
    gang.clean(35)


def test_a_slurmd_that_wakes_after_the_refusal_starts_nothing(gang: Gang) -> None:
    gang.cluster.signal_slurmd("n3", "stop")
    try:
        ran = gang.srun(*EVERYBODY, "--gang-start=2", *gang.trace())
        assert set(refusal(ran)) == {"n3"}
        until(lambda: gang.pids(WAITING) == {}, "the others to end", 10)
    finally:
        gang.cluster.signal_slurmd("n3", "cont")
    gang.clean(35)
    assert gang.started() == []


@pytest.mark.parametrize("allocate", ["salloc", "sbatch"])
@pytest.mark.parametrize("hook", ["task_init", "user_init"])
def test_an_allocation_is_usable_after_a_refusal(
    sabotaged: Gang, allocate: str, hook: str
) -> None:
    if hook == "user_init" and slurmroot.since("24.11"):
        pytest.skip("without us too, Slurm from 24.11 on never ends such a node's step")
    gang, late = sabotaged, sabotaged.folder / "late"
    env = sabotage(hook, "2", f"hold={late}")
    words = " ".join(f"{key}={value}" for key, value in env.items())
    ranks = "sh -c 'echo $RANK'"
    # Slurm does not end a slurmstepd that hangs in a plugin before it has forked.
    script = (
        f"env {words} srun {' '.join(EVERYBODY)} --gang-start=2 true; echo code $?\n"
        f"touch {late}\n"
        f"srun -N4 --ntasks-per-node=8 --gang-start=30 {ranks}; echo code $?\n"
    )
    if allocate == "salloc":
        ran = gang.run(["salloc", "-Q", "-N4", "--exclusive", "sh", "-c", script])
        out = ran.out
        assert ran.seconds < 20, ran.err
    else:
        out, _ = gang.batch("-N4", "--exclusive", script=script)
    rows = [line for line in out.splitlines() if line[:4] == "code"]
    assert rows == ["code 75", "code 0"], out
    numbers = [int(line) for line in out.splitlines() if line.isdigit()]
    assert sorted(numbers) == list(range(32))
    gang.clean(10)


@pytest.mark.parametrize("option", ["--kill-on-bad-exit", "--wait=1", "--no-kill"])
@pytest.mark.parametrize("does", ["exit=3", f"hold={NEVER}"], ids=["exit", "hold"])
def test_options_about_ends_do_not_change_a_refusal(
    sabotaged: Gang, option: str, does: str
) -> None:
    gang = sabotaged
    ran = gang.srun(
        *(*EVERYBODY, option, "--gang-start=2", *gang.trace()),
        env=sabotage("task_init", "3", does),
    )
    assert set(refusal(ran)) == {"n2"}
    assert ran.seconds < 2 + PATIENCE
    gang.clean(20)
    assert gang.started() == []
