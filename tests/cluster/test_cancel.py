"""Ending a step that still waits is a cancel, not a failed start."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from cluster.gang import WAITING, Gang, Ran, Running, until
from gangstart.cluster import Spec

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.cluster

EVERYBODY = ("-N4", "--ntasks-per-node=2")
GONE_WITHIN = 10
HOLD_RANK_0 = {
    "SABOTEUR_HOOK": "task_init",
    "SABOTEUR_WHO": ",0,",
    "SABOTEUR_DOES": "hold=/nonexistent/never",
}


@pytest.fixture
def waiting(sabotaged: Gang) -> Running:
    """Start a step of eight tasks; seven of them wait for rank 0."""
    command = ["srun", *EVERYBODY, "--gang-start=60", *sabotaged.trace()]
    running = sabotaged.start(command, env=HOLD_RANK_0)
    sabotaged.until_waiting(7)
    return running


def job_id(gang: Gang) -> str:
    """Return the only job there is."""
    return gang.run(["squeue", "-h", "-o", "%A"]).out.strip()


def check(gang: Gang, ran: Ran, *codes: int) -> None:
    """A cancel: srun's own code, not a word of ours, nothing left, nobody started."""
    assert ran.code in codes, ran.err
    assert ran.told == [], "a cancel is not a failed start"
    gang.clean(GONE_WITHIN)
    assert gang.started() == []


@pytest.mark.parametrize(
    ("options", "step", "codes"),
    [
        ([], "", (143, 137)),
        ([], ".0", (143, 137)),
        (["-s", "TERM"], "", (143,)),
        (["-s", "TERM"], ".0", (143,)),
        (["-s", "INT"], "", (130,)),
        (["-s", "KILL"], "", (143, 137)),
        (["-s", "USR1"], ".0", (138,)),
    ],
    ids=["job", "step", "TERM", "TERM to step", "INT", "KILL", "USR1"],
)
def test_scancel_is_a_cancel(
    sabotaged: Gang,
    waiting: Running,
    options: list[str],
    step: str,
    codes: tuple[int, ...],
) -> None:
    done = sabotaged.run(["scancel", *options, f"{job_id(sabotaged)}{step}"])
    assert done.code == 0, done.err
    ran = waiting.wait(GONE_WITHIN)
    check(sabotaged, ran, *codes)


def test_one_ctrl_c_only_asks_and_two_cancel(sabotaged: Gang, waiting: Running) -> None:
    waiting.send(signal.SIGINT)
    until(lambda: "interrupt (one more" in waiting.text("err"), "srun's question")
    assert len(sabotaged.pids(WAITING)) == 7
    waiting.send(signal.SIGINT)
    ran = waiting.wait(GONE_WITHIN)
    check(sabotaged, ran, 130, 137, 143)


def test_a_sigterm_to_srun_is_a_cancel(sabotaged: Gang, waiting: Running) -> None:
    waiting.send(signal.SIGTERM)
    ran = waiting.wait(GONE_WITHIN)
    check(sabotaged, ran, 137, 143)


def test_a_hangup_of_srun_is_a_cancel(sabotaged: Gang, waiting: Running) -> None:
    waiting.send(signal.SIGHUP)
    ran = waiting.wait(GONE_WITHIN)
    check(sabotaged, ran, 129, 137, 143)


def test_nothing_outlives_an_srun_that_is_killed(
    sabotaged: Gang, waiting: Running
) -> None:
    waiting.send(signal.SIGKILL)
    ran = waiting.wait(GONE_WITHIN)
    check(sabotaged, ran, -signal.SIGKILL)


def test_a_stopped_srun_goes_on_and_blames_nobody(
    sabotaged: Gang, stopped_for: Callable[[Running, float], None]
) -> None:
    late = sabotaged.folder / "late"
    running = sabotaged.start(
        ["srun", *EVERYBODY, "--gang-start=3", *sabotaged.trace()],
        env={**HOLD_RANK_0, "SABOTEUR_DOES": f"hold={late}"},
    )
    sabotaged.until_waiting(7)
    stopped_for(running, 4)
    late.touch()
    ran = running.wait()
    assert ran.code == 0, ran.err
    assert len(ran.told) == 1
    assert sabotaged.started() == list(range(8))


@pytest.fixture
def stopped_for() -> Callable[[Running, float], None]:
    """Stop a command for some time, as Ctrl-Z does; how long is what is tested."""

    def stop(running: Running, seconds: float) -> None:
        running.send(signal.SIGSTOP)
        try:
            with pytest.raises(AssertionError, match="in vain"):
                until(lambda: running.popen.poll() is not None, "its end", seconds)
        finally:
            running.send(signal.SIGCONT)

    return stop


def test_a_cancelled_batch_job_with_a_waiting_step_leaves_nothing(
    sabotaged: Gang,
) -> None:
    path, out = sabotaged.folder / "job.sh", sabotaged.folder / "out"
    sabotage = " ".join(f"{name}={value}" for name, value in HOLD_RANK_0.items())
    path.write_text(f"#!/bin/sh\n{sabotage} srun --gang-start=300 true\n")
    done = sabotaged.run(["sbatch", "-N2", f"--output={out}", path])
    assert done.code == 0, done.err
    sabotaged.until_waiting(1)
    assert sabotaged.run(["scancel", job_id(sabotaged)]).code == 0
    sabotaged.clean(GONE_WITHIN)
    assert "gang-start" not in out.read_text()


def test_a_cancel_while_a_node_has_not_even_connected_is_a_cancel(
    gang_on: Callable[[Spec], Gang],
) -> None:
    # Slurm's launch hangs on a slurmd that does not answer: for twice this time-out in
    # 22.05, for 20 s in 24.11 and 26.05, also without a gang start.
    gang = gang_on(Spec(slurm_lines=("MessageTimeout=1",)))
    gang.cluster.signal_slurmd("n3", "stop")
    running = gang.start(["srun", *EVERYBODY, "--gang-start=60", *gang.trace()])
    gang.until_waiting(6)
    assert gang.run(["scancel", job_id(gang)]).code == 0
    ran = running.wait(20 + 2 * GONE_WITHIN)
    assert ran.code not in {0, 75}
    assert ran.told == []
    assert gang.pids(WAITING) == {}
    assert gang.started() == []
