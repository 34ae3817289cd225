"""Whoever asks for nothing gets what Slurm without the plugin would give."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from cluster.gang import Gang, until
from gangstart.cluster import Spec

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.cluster

OURS = re.compile(
    r"(GANGSTART_\w*|SLURM_GANG_\w*|RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE"
    r"|NODE_RANK|GROUP_RANK|MASTER_ADDR|MASTER_PORT|\w*SPANK\w*)="
)
#: What differs from one step to the next, with and without the plugin.
CHANGES = re.compile(
    r"\b(?:SLURM_(?:JOB_?ID|JOBID|JOB_SLUID|JOB_(?:START|END)_TIME|STEP_?ID|STEPID|TASK_PID|LAUNCH_NODE_IPADDR"
    r"|SRUN_COMM_PORT|STEP_LAUNCHER_PORT|TOPOLOGY\w*)|TMPDIR|PWD)=.*"
)


def environment(text: str) -> list[str]:
    """Return the variables of a task, less those that always change."""
    return sorted(line for line in text.splitlines() if not CHANGES.match(line))


def ours(text: str) -> list[str]:
    """Return the variables that only a gang start sets."""
    return [line for line in text.splitlines() if OURS.match(line)]


def test_a_step_without_the_flag_has_the_environment_of_a_slurm_without_the_plugin(
    gang: Gang,
) -> None:
    with_plugin = gang.srun("-N1", "-n1", "-w", "n2", "env")
    gang.quiet()
    with gang.plugstack("# nothing"):
        without = gang.srun("-N1", "-n1", "-w", "n2", "env")
    assert with_plugin.code == without.code == 0
    assert environment(with_plugin.out) == environment(without.out)
    assert (with_plugin.err, without.err) == ("", "")


def test_a_step_without_the_flag_makes_no_file_and_no_report(gang: Gang) -> None:
    before = set(gang.cluster.directory.glob("node/*/run/*"))
    go = gang.folder / "go"
    wait = f"while [ ! -e {go} ]; do sleep 0.05; done"
    running = gang.start(["srun", "-N2", "sh", "-c", f"{wait}; echo done"])
    until(lambda: len(gang.pids("sh")) >= 2, "the tasks")
    assert set(gang.cluster.directory.glob("node/*/run/*")) <= before
    assert [s for s in gang.sockets() if " head " not in s] == []
    go.touch()
    ran = running.wait()
    assert (ran.code, ran.out, ran.err) == (0, "done\ndone\n", "")
    assert gang.copies() == []


def test_exit_codes_and_signals_of_tasks_are_untouched(gang: Gang) -> None:
    for flag in ([], ["--gang-start=20"]):
        assert gang.srun(*flag, "-N2", "sh", "-c", "exit 7").code == 7
        gang.quiet()
        assert gang.srun(*flag, "-N2", "sh", "-c", "kill -SEGV $$").code == 139
        gang.quiet()


def test_signals_of_a_started_task_are_as_slurm_has_them(gang: Gang) -> None:
    # The barrier's handlers, mask and name must be gone when the program starts.
    shown = ("grep", "-E", "^(Name|Sig|Shd)", "/proc/self/status")
    plain = gang.srun("-n1", "-w", "n1", *shown)
    gang.quiet()
    ran = gang.srun("-n1", "-w", "n1", "--gang-start=20", *shown)
    queue = re.compile(r"SigQ:.*\n")
    assert queue.sub("", ran.out) == queue.sub("", plain.out)


def test_a_started_task_has_no_descriptor_of_ours(gang: Gang) -> None:
    ran = gang.srun("-N2", "--gang-start=20", "sh", "-c", "ls -l /proc/$$/fd")
    assert ran.code == 0
    assert "socket" not in "".join(
        line for line in ran.out.splitlines() if not re.search(r" [012] -> ", line)
    )
    assert not re.search(r"eventfd|eventpoll|port\.", ran.out)


def test_the_batch_script_itself_is_no_gang(gang: Gang) -> None:
    out, err = gang.batch("-N2", "--gang-start=20", script="env; exec true")
    assert [line for line in ours(out) if "SPANK" not in line] == []
    assert err == ""


def test_an_interactive_step_is_no_gang(gang_on: Callable[[Spec], Gang]) -> None:
    gang = gang_on(Spec(slurm_lines=("LaunchParameters=use_interactive_step",)))
    # The shell that salloc starts is SHELL; here it prints and ends.
    shell = gang.folder / "shell"
    shell.write_text("#!/bin/sh\necho on $SLURMD_NODENAME; env\n")
    shell.chmod(0o755)
    ran = gang.run(
        ["salloc", "-Q", "-N2", "--gang-start=20"], env={"SHELL": str(shell)}
    )
    assert "on n1" in ran.out.splitlines(), ran.err
    assert [line for line in ours(ran.out) if "SPANK" not in line] == []
    assert ran.told == []
    gang.clean()


def test_the_extern_step_is_no_gang(gang_on: Callable[[Spec], Gang]) -> None:
    gang = gang_on(
        Spec(
            slurm_lines=(
                "PrologFlags=Alloc,Contain",
                "JobAcctGatherType=jobacct_gather/none",
            )
        )
    )
    ran = gang.srun("-N2", "--gang-start=20", "sh", "-c", "echo $RANK $WORLD_SIZE")
    assert ran.code == 0, ran.err
    assert ran.rows == [["0", "2"], ["1", "2"]]
    assert "2/2 tasks on 2/2 nodes" in ran.told[0]
    log = (gang.cluster.directory / "log" / "slurmd.n1.log").read_text()
    assert ".extern]" in log, "there was no extern step"
    gang.clean()


def test_a_step_inside_a_gang_task_inherits_nothing_of_it(gang: Gang) -> None:
    # Rank 1 starts a step of its own; what its own gang told it would be wrong there.
    inner = gang.folder / "inner.sh"
    inner.write_text(
        '[ "$RANK" = 1 ] || exit 0\n'
        "srun --overlap -N1 -n1 -w n1 env\n"
        "echo ---\n"
        "srun --overlap -N1 -n2 -w n2 --gang-start=20 "
        "sh -c 'echo $RANK $WORLD_SIZE $MASTER_ADDR'\n"
    )
    ran = gang.srun("-N2", "--ntasks-per-node=2", "--gang-start=20", "sh", inner)
    assert ran.code == 0, ran.err
    plain, _, flagged = ran.out.partition("---\n")
    assert "SLURM_PROCID=0" in plain
    assert ours(plain) == []
    assert sorted(flagged.splitlines()) == [
        f"{rank} 2 {gang.address('n2')}" for rank in range(2)
    ]


def test_the_users_own_values_survive_a_step_inside(gang: Gang) -> None:
    inner = gang.folder / "inner.sh"
    inner.write_text("srun --overlap -N1 -n1 env\n")
    env = {"MASTER_ADDR": "n1", "MASTER_PORT": "29505"}
    ran = gang.srun("-n1", "-w", "n1", "--gang-start=20", "sh", inner, env=env)
    assert ran.code == 0, ran.err
    assert sorted(ours(ran.out)) == ["MASTER_ADDR=n1", "MASTER_PORT=29505"]


@pytest.mark.parametrize("mode", ["optional", "required"])
def test_the_plugin_works_in_either_mode(gang: Gang, mode: str) -> None:
    usual = (gang.cluster.directory / "etc" / "plugstack.conf").read_text()
    with gang.plugstack(usual.strip().replace("optional", mode)):
        ran = gang.srun("-N2", "--gang-start=20", "sh", "-c", "echo $RANK")
        assert (ran.code, ran.rows) == (0, [["0"], ["1"]])
        gang.quiet()
        assert gang.srun("-N2", "true").code == 0


def test_a_plugin_listed_twice_acts_once(gang: Gang) -> None:
    with gang.plugstack("{ours}", "{ours}"):
        ran = gang.srun("-N4", "-n8", "--gang-start=20", "sh", "-c", "echo $RANK")
    assert ran.code == 0, ran.err
    assert ran.rows == [[str(rank)] for rank in range(8)]
    assert len([line for line in ran.told if line.startswith("gang-start: 8/8")]) == 1
