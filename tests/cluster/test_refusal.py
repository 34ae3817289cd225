"""A start that cannot be good: refused in time, the guilty named, nobody started."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cluster.gang import Gang, refusal, until, why
from gangstart.cluster import Spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.gang import Ran

pytestmark = pytest.mark.cluster

EVERYBODY = ("-N4", "--ntasks-per-node=2")
PATIENCE = 5.0
NEVER = "/nonexistent/never"


def sabotage(hook: str, who: str, does: str) -> dict[str, str]:
    """Environment of a step that meets saboteur.c."""
    return {"SABOTEUR_HOOK": hook, "SABOTEUR_WHO": f",{who},", "SABOTEUR_DOES": does}


def check_report(gang: Gang, reason: str, nodes: str, ranks: str) -> None:
    """Check the user's own copy of the report: it says what the terminal said."""
    report = gang.copies()[-1]
    assert report["complete"] is True
    assert (report["outcome"], report["reason"]) == ("refused", reason)
    assert report["blamed_nodes"] == nodes
    assert ranks in {report["missing_ranks"], "any"}


@pytest.fixture
def restart(gang: Gang) -> Iterator[Callable[[str], None]]:
    """After the test, start the slurmd of the nodes it was called with."""
    broken: list[str] = []
    yield broken.append
    for node in broken:
        gang.cluster.start_slurmd(node)


def test_a_node_whose_slurmd_hangs_is_named_and_srun_ends(gang: Gang) -> None:
    gang.cluster.signal_slurmd("n3", "stop")
    try:
        ran = gang.srun(*EVERYBODY, "--gang-start=2", *gang.trace())
    finally:
        gang.cluster.signal_slurmd("n3", "cont")
    assert refusal(ran) == {"n3": ("4-5", "never connected")}
    assert why(ran, "n3").startswith("slurmd takes connections but does not answer")
    assert "1 of 4 nodes is not ready (3 nodes, 6 tasks were ready)" in ran.told[0]
    assert ran.told[-1] == "  next: scontrol show node n3 · sbatch --exclude=n3 …"
    # Slurm's own launch hangs on the node for 20 s; srun must not wait for it.
    assert 2 <= ran.when("refused after") <= 2 + PATIENCE
    assert ran.seconds - ran.when("refused after") < 2
    gang.clean(20)
    assert gang.started() == []
    check_report(gang, "timeout", "n3", "4-5")


def test_nodes_whose_slurmd_is_dead_are_named_in_one_line(
    gang: Gang, restart: Callable[[str], None]
) -> None:
    for node in ("n2", "n3"):
        gang.cluster.signal_slurmd(node, "kill")
        restart(node)
    ran = gang.srun(*EVERYBODY, "--gang-start=60", *gang.trace())
    assert ran.code == 75, ran.err
    # When Slurm gives up the launch it kills the tasks of the others: not their fault.
    assert "2 of 4 nodes are not ready" in ran.told[0]
    assert "(2 nodes, 4 tasks were ready)" in ran.told[0]
    assert ran.told[1].split()[:5] == ["n[2-3]", "ranks", "2-5", "never", "connected:"]
    assert ran.told[1].endswith("slurmd cannot be reached (Connection refused)")
    assert ran.told[2].startswith("  next: scontrol show node n[2-3] · ")
    assert len(ran.told) == 3
    assert ran.seconds < 20, "long before the user's time is up"
    assert gang.started() == []
    check_report(gang, "ended_by_slurm", "n[2-3]", "2-5")


def test_a_node_without_a_cable_is_named(gang: Gang) -> None:
    gang.cluster.set_cable("n4", up=False)
    try:
        ran = gang.srun(*EVERYBODY, "--gang-start=2", *gang.trace())
    finally:
        gang.cluster.set_cable("n4", up=True)
    assert refusal(ran) == {"n4": ("6-7", "never connected")}
    assert why(ran, "n4").startswith("slurmd cannot be reached (")
    assert ran.seconds <= 2 + PATIENCE
    gang.clean(60)
    assert gang.started() == []


def test_a_cable_pulled_during_the_wait_is_noticed_before_the_time_is_up(
    sabotaged: Gang,
) -> None:
    gang = sabotaged
    running = gang.start(
        ["srun", *EVERYBODY, "--gang-start=60", *gang.trace()],
        env=sabotage("task_init", "0", f"hold={NEVER}"),
    )
    gang.until_waiting(7)
    gang.cluster.set_cable("n2", up=False)
    try:
        ran = running.wait()
        assert not [p for p in gang.pids("gang-wait").values() if p != "n2"]
        assert refusal(ran)["n2"][0] == "2-3"
        assert "a node was lost" in ran.told[0]
        assert ran.seconds < 15
    finally:
        gang.cluster.set_cable("n2", up=True)
    gang.clean(60)
    assert gang.started() == []
    check_report(gang, "node_lost", "n2", "0")


def test_ranks_that_hang_before_the_barrier_are_named(sabotaged: Gang) -> None:
    gang = sabotaged
    ran = gang.srun(
        *(*EVERYBODY, "--gang-start=2", *gang.trace()),
        env=sabotage("task_init", "5", f"hold={NEVER}"),
    )
    assert refusal(ran) == {"n3": ("4-5", "rank 5 not started")}
    assert "still in task_init of saboteur or Slurm's set-up" in why(ran, "n3")
    assert "(3 nodes, 7 tasks were ready)" in ran.told[0]
    assert 2 <= ran.when("refused after") <= 2 + PATIENCE
    assert ran.seconds <= 2 + PATIENCE
    gang.clean(20)
    assert gang.started() == []
    check_report(gang, "timeout", "n3", "5")


def test_a_node_that_hangs_before_its_tasks_are_forked_is_named(
    sabotaged: Gang,
) -> None:
    gang = sabotaged
    late = gang.folder / "late"
    ran = gang.srun(
        *(*EVERYBODY, "--gang-start=2", *gang.trace()),
        env=sabotage("user_init", "1", f"hold={late}"),
    )
    assert refusal(ran) == {"n2": ("2-3", "never connected")}
    assert why(ran, "n2").startswith("slurmd answers; slurmstepd has started no task ")
    assert why(ran, "n2").endswith(": is it in user_init of saboteur?")
    assert ran.seconds <= 2 + PATIENCE
    # It goes on now, and finds that nobody waits for it any more.
    late.touch()
    gang.clean(20)
    assert gang.started() == []


@pytest.mark.parametrize(
    ("does", "ending"),
    [
        ("exit=3", "exit code 3"),
        ("exit=0", "exit code 0"),
        ("kill=11", "signal 11 (Segmentation fault)"),
        ("kill=9", "signal 9 (Killed)"),
    ],
)
def test_a_task_that_dies_before_the_barrier_ends_the_start_at_once(
    sabotaged: Gang, does: str, ending: str
) -> None:
    gang = sabotaged
    ran = gang.srun(
        *(*EVERYBODY, "--gang-start=60", *gang.trace()),
        env=sabotage("task_init", "3", does),
    )
    blamed = refusal(ran)
    assert set(blamed) == {"n2"}
    assert blamed["n2"][1].endswith(f"rank 3: {ending}")
    assert ran.seconds < PATIENCE, "at once, not when the time is up"
    gang.clean(10)
    assert gang.started() == []
    check_report(gang, "task_ended", "n2", "any")


def test_the_only_task_of_a_node_that_is_killed_is_no_cancel(sabotaged: Gang) -> None:
    gang = sabotaged
    ran = gang.srun(
        *("-N4", "-n4", "--gang-start=60", *gang.trace()),
        env=sabotage("task_init", "2", "kill=9"),
    )
    assert refusal(ran)["n3"][1].endswith("rank 2: signal 9 (Killed)")
    assert ran.seconds < PATIENCE
    gang.clean(10)
    assert gang.started() == []


def test_a_waiting_task_that_is_killed_ends_the_start(sabotaged: Gang) -> None:
    gang = sabotaged
    running = gang.start(
        ["srun", *EVERYBODY, "--gang-start=60", *gang.trace()],
        env=sabotage("task_init", "0", f"hold={NEVER}"),
    )
    gang.until_waiting(7)
    victim = next(p for p, node in gang.pids("gang-wait").items() if node == "n4")
    gang.cluster.run(["kill", "-KILL", str(victim)], node="n4")
    ran = running.wait()
    assert refusal(ran)["n4"][1].endswith("signal 9 (Killed)")
    assert ran.seconds < 2 * PATIENCE
    gang.clean(10)
    assert gang.started() == []


def test_a_slurmstepd_that_is_killed_ends_the_start(sabotaged: Gang) -> None:
    gang = sabotaged
    running = gang.start(
        ["srun", *EVERYBODY, "--gang-start=60", *gang.trace()],
        env=sabotage("task_init", "0", f"hold={NEVER}"),
    )
    gang.until_waiting(7)
    victim = next(p for p, n in gang.pids("slurmstepd").items() if n == "n4")
    gang.cluster.run(["kill", "-KILL", str(victim)], node="n4")
    ran = running.wait()
    assert refusal(ran)["n4"][0] == "6-7"
    assert ran.seconds < 2 * PATIENCE
    until(lambda: gang.pids("gang-wait") == {}, "the orphaned tasks to end", 10)
    gang.clean(60)
    assert gang.started() == []


def test_a_node_that_cannot_launch_is_named(sabotaged: Gang) -> None:
    gang = sabotaged
    ran = gang.srun(
        *(*EVERYBODY, "--gang-start=2", *gang.trace()),
        env=sabotage("post_opt", "1", "exit=1"),
    )
    assert refusal(ran) == {"n2": ("2-3", "never connected")}
    assert ran.seconds <= 2 + PATIENCE
    gang.clean(60)
    assert gang.started() == []


def test_a_late_rank_within_the_time_is_waited_for_and_named(sabotaged: Gang) -> None:
    gang = sabotaged
    late = gang.folder / "late"
    running = gang.start(
        ["srun", *EVERYBODY, "--gang-start=60,slack=0.001", *gang.trace()],
        env=sabotage("task_init", "6", f"hold={late}"),
    )
    gang.until_waiting(7)
    assert gang.started() == [], "nobody starts before the last one is there"
    late.touch()
    ran: Ran = running.wait()
    assert ran.code == 0, ran.err
    assert "(last: rank 6 on n4, +" in ran.told[0]
    assert ran.told[1].startswith("gang-start: warning: rank 6 on n4 was ")
    assert gang.started() == list(range(8))


def test_the_job_record_has_the_exit_code_too(sabotaged: Gang) -> None:
    gang = sabotaged
    ran = gang.srun(
        *(*EVERYBODY, "--gang-start=60", *gang.trace()),
        env=sabotage("task_init", "3", "exit=3"),
    )
    assert ran.code == 75
    job = gang.copies()[-1]["step"]["job_id"]
    shown = gang.run(["scontrol", "show", "job", str(job)]).out
    assert "JobState=FAILED" in shown
    assert "ExitCode=75:0" in shown


def test_a_node_with_a_slow_prolog_is_named_and_never_starts_later(
    gang_on: Callable[[Spec], Gang],
) -> None:
    # Every node sees /var/tmp, as it does not see this machine's /tmp.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as shared:
        go, prolog = Path(shared, "go"), Path(shared, "prolog")
        wait = f"while [ ! -e {go} ]; do sleep 0.05; done"
        prolog.write_text(f'#!/bin/sh\n[ "$SLURMD_NODENAME" != n3 ] || {wait}\n')
        prolog.chmod(0o755)
        gang = gang_on(Spec(slurm_lines=(f"Prolog={prolog}",)))
        ran = gang.srun(*EVERYBODY, "--gang-start=2", *gang.trace())
        assert refusal(ran) == {"n3": ("4-5", "never connected")}
        assert ran.seconds <= 2 + PATIENCE
        go.touch()
        gang.clean(30)
    assert gang.started() == []
