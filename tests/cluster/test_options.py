"""Where the SPEC comes from, which one wins, and what a bad one costs."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.gang import Gang

pytestmark = pytest.mark.cluster

IS_ON = ("/bin/sh", "-c", "echo ${RANK-none}")


def timeout_used(gang: Gang) -> int:
    """Return the time-out of the newest start, as its report tells it."""
    copies = gang.copies()
    assert copies, "there was no gang start"
    timeout: int = copies[-1]["timeout_s"]
    return timeout


def test_without_flag_variable_or_argument_nothing_happens(gang: Gang) -> None:
    ran = gang.srun("-N2", *IS_ON)
    assert (ran.code, ran.out, ran.told) == (0, "none\nnone\n", [])
    assert gang.copies() == []


def test_a_bare_flag_takes_the_defaults(gang: Gang) -> None:
    ran = gang.srun("-N2", "--gang-start", *IS_ON)
    assert (ran.code, ran.rows) == (0, [["0"], ["1"]])
    assert timeout_used(gang) == 120


def test_the_variable_is_the_flag(gang: Gang) -> None:
    ran = gang.srun("-N2", *IS_ON, env={"SLURM_GANG_START": "31"})
    assert (ran.code, ran.rows) == (0, [["0"], ["1"]])
    assert timeout_used(gang) == 31


def test_an_empty_variable_is_no_variable(gang: Gang) -> None:
    ran = gang.srun("-N2", *IS_ON, env={"SLURM_GANG_START": ""})
    assert (ran.code, ran.rows) == (0, [["none"], ["none"]])


def test_a_variable_that_says_on_takes_the_defaults(gang: Gang) -> None:
    ran = gang.srun("-N2", *IS_ON, env={"SLURM_GANG_START": "on"})
    assert (ran.code, ran.rows) == (0, [["0"], ["1"]])
    assert timeout_used(gang) == 120


def test_the_flag_beats_the_variable_beats_plugstack_conf(gang: Gang) -> None:
    env = {"SLURM_GANG_START": "32"}
    with gang.plugstack("{ours} timeout=33"):
        assert gang.srun("-N2", "--gang-start=31", "true", env=env).code == 0
        assert timeout_used(gang) == 31
        gang.quiet()
        assert gang.srun("-N2", "true", env=env).code == 0
        assert timeout_used(gang) == 32
        gang.quiet()
        assert gang.srun("-N2", "--gang-start", "true").code == 0
        assert timeout_used(gang) == 33


def test_a_bare_flag_keeps_what_the_variable_says(gang: Gang) -> None:
    ran = gang.srun("-N2", "--gang-start", "true", env={"SLURM_GANG_START": "32"})
    assert ran.code == 0
    assert timeout_used(gang) == 32


def test_off_on_the_command_line_beats_everything(gang: Gang) -> None:
    env = {"SLURM_GANG_START": "32"}
    with gang.plugstack("{ours} auto=always"):
        ran = gang.srun("-N2", "--gang-start=off", *IS_ON, env=env)
    assert (ran.code, ran.out, ran.told) == (0, "none\nnone\n", [])


def test_off_in_the_variable_beats_plugstack_conf(gang: Gang) -> None:
    with gang.plugstack("{ours} auto=always"):
        ran = gang.srun("-N2", *IS_ON, env={"SLURM_GANG_START": "off"})
    assert (ran.code, ran.out, ran.told) == (0, "none\nnone\n", [])


@pytest.mark.parametrize(
    ("options", "env", "on"),
    [
        ((), {}, False),
        (("-p", "all"), {}, True),
        (("-pall",), {}, True),
        (("--partition=all",), {}, True),
        (("--partition", "all"), {}, True),
        (("--partition=second",), {}, False),
        (("--partition=all,second",), {}, False),
        ((), {"SLURM_PARTITION": "all"}, True),
        ((), {"SLURM_PARTITION": "second"}, False),
        (("-p", "all"), {"SLURM_GANG_START": "off"}, False),
        (("-p", "second"), {"SLURM_GANG_START": "on"}, True),
    ],
)
@pytest.mark.usefixtures("second")
def test_a_site_can_have_it_in_one_partition(
    gang: Gang, options: tuple[str, ...], env: dict[str, str], on: object
) -> None:
    with gang.plugstack("{ours} auto=always partition=train+all"):
        ran = gang.srun("-N2", *options, *IS_ON, env=env)
    assert ran.code == 0
    assert (ran.out == "none\nnone\n") is not on


@pytest.mark.usefixtures("second")
def test_in_a_job_its_own_partition_counts(gang: Gang) -> None:
    with gang.plugstack("{ours} auto=always partition=all"):
        for partition, said in (("all", "0\n1\n"), ("second", "none\nnone\n")):
            inner = f"srun -N2 {' '.join(map(shlex.quote, IS_ON))} | sort"
            out, _ = gang.batch("-N2", f"--partition={partition}", script=inner)
            assert out == said


@pytest.fixture
def second(gang: Gang) -> Iterator[None]:
    """A second partition of the same nodes."""
    nodes = ",".join(gang.cluster.nodes)
    create = ["PartitionName=second", f"Nodes={nodes}", "State=UP"]
    assert gang.run(["scontrol", "create", *create]).code == 0
    yield
    gang.quiet()
    assert gang.run(["scontrol", "delete", "PartitionName=second"]).code == 0


def test_a_site_can_have_it_always(gang: Gang) -> None:
    with gang.plugstack("{ours} auto=always timeout=34"):
        ran = gang.srun("-N2", *IS_ON)
    assert (ran.code, ran.rows) == (0, [["0"], ["1"]])
    assert timeout_used(gang) == 34


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("0", ["0", "1 to 86400"]),
        ("86401", ["86401", "1 to 86400"]),
        ("soon", ["soon"]),
        ("tiemout=60", ["tiemout"]),
        ("timeout=60,health=maybe", ["health", "maybe", "off, record or require"]),
        ("master-port=80", ["master-port", "80", "1024 to 65535"]),
        ("master-iface=a/b/c", ["master-iface", "a/b/c"]),
        ("env=pytorch", ["env", "pytorch"]),
        ("auto=always", ["auto"]),
        ("archive=/tmp/x", ["archive"]),
    ],
)
@pytest.mark.parametrize("way", ["flag", "variable"])
def test_a_bad_spec_ends_srun_with_one_line_before_anything_starts(
    gang: Gang, way: str, spec: str, words: list[str]
) -> None:
    options = [f"--gang-start={spec}"] if way == "flag" else []
    env = {} if way == "flag" else {"SLURM_GANG_START": spec}
    ran = gang.srun("-N2", *options, *gang.trace(), env=env)
    assert ran.code == 78
    assert len(ran.err.splitlines()) == 1, ran.err
    assert ran.err.startswith("srun: error: gang-start: ")
    assert [word for word in words if word not in ran.err] == []
    if way == "variable":
        assert "SLURM_GANG_START" in ran.err
    assert gang.started() == []
    assert ran.seconds < 5


@pytest.mark.parametrize("command", ["sbatch", "salloc"])
def test_a_bad_spec_submits_and_allocates_nothing(gang: Gang, command: str) -> None:
    script = gang.folder / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH --gang-start=never\n")
    words = [script] if command == "sbatch" else ["--gang-start=never", "true"]
    ran = gang.run([command, *words])
    assert ran.code == 78
    assert ran.err.startswith(f"{command}: error: gang-start: ")
    assert len(ran.err.splitlines()) == 1, ran.err
    assert ran.out == ""


def test_the_help_of_every_command_has_the_flag(gang: Gang) -> None:
    for command in ("srun", "sbatch", "salloc"):
        assert "--gang-start=[SPEC]" in gang.run([command, "--help"]).out


def test_a_mistake_in_plugstack_conf_hurts_only_who_asks(gang: Gang) -> None:
    with gang.plugstack("{ours} tiemout=60"):
        without = gang.srun("-N2", "echo", "fine")
        gang.quiet()
        ran = gang.srun("-N2", "--gang-start", *gang.trace())
    assert (without.code, without.out, without.err) == (0, "fine\nfine\n", "")
    assert ran.code == 78
    assert "plugstack.conf" in ran.err
    assert "tiemout" in ran.err
    assert gang.started() == []


def test_sbatch_hands_the_flag_to_the_sruns_inside(gang: Gang) -> None:
    out, err = gang.batch(
        *("-N2", "--gang-start=35"),
        script="echo batch ${RANK-none}; srun sh -c 'echo $RANK $WORLD_SIZE'",
    )
    assert sorted(out.splitlines()) == ["0 2", "1 2", "batch none"]
    assert err.count("gang-start: 2/2 tasks on 2/2 nodes") == 1
    assert timeout_used(gang) == 35


def test_a_line_in_the_batch_script_is_enough(gang: Gang) -> None:
    out, err = gang.batch(
        script="""\
#SBATCH -N 3
#SBATCH --gang-start=36
srun sh -c 'echo $RANK $WORLD_SIZE'
srun --gang-start=off sh -c 'echo ${RANK-none}'
srun -N1 -n1 --gang-start=37 sh -c 'echo $RANK $WORLD_SIZE'
"""
    )
    assert err.count("gang-start: ") == 2
    assert sorted(out.splitlines()) == [
        "0 1",
        "0 3",
        "1 3",
        "2 3",
        "none",
        "none",
        "none",
    ]
    assert [copy["timeout_s"] for copy in gang.copies()] == [36, 37]


def test_salloc_hands_the_flag_to_the_sruns_inside(gang: Gang) -> None:
    script = "echo shell ${RANK-none}; srun sh -c 'echo $RANK $WORLD_SIZE'"
    ran = gang.run(["salloc", "-Q", "-N2", "--gang-start=38", "sh", "-c", script])
    assert ran.code == 0, ran.err
    assert sorted(ran.out.splitlines()) == ["0 2", "1 2", "shell none"]
    assert timeout_used(gang) == 38


def test_a_variable_set_later_replaces_one_set_earlier(gang: Gang) -> None:
    inner = gang.folder / "inner.sh"
    inner.write_text("echo ${RANK-none}; SLURM_GANG_START=off srun env\n")
    options = ["-Q", "-N1", "-n1", "--overlap"]
    for outer in (["salloc", "-Q", "-N1", "sh"], ["srun", *options, "sh"]):
        ran = gang.run([*outer, inner], env={"SLURM_GANG_START": "33"})
        first, *rest = ran.out.splitlines()
        assert (ran.code, first) == (0, "none" if outer[0] == "salloc" else "0")
        assert [line for line in rest if line.startswith("RANK=")] == []
        gang.quiet()


def test_every_member_of_a_job_array_is_a_gang_of_its_own(gang: Gang) -> None:
    out, err = gang.batch(
        *("-N2", "--array=0-2", "--gang-start=39"),
        script="srun sh -c 'echo $SLURM_ARRAY_TASK_ID $RANK $WORLD_SIZE'",
    )
    assert sorted(out.splitlines()) == [
        f"{member} {rank} 2" for member in range(3) for rank in range(2)
    ]
    assert err.count("gang-start: 2/2 tasks on 2/2 nodes") == 3
    assert len({copy["step"]["name"] for copy in gang.copies()}) == 3


def test_steps_at_once_in_one_allocation_do_not_disturb_each_other(gang: Gang) -> None:
    show = gang.folder / "show.sh"
    show.write_text("echo $1 $RANK $WORLD_SIZE $MASTER_PORT\n")
    step = f"srun -N2 -n$n -c1 --exact --gang-start=20 sh {show} $n &"
    script = f"for n in 2 3 4; do {step} done; wait"
    ran = gang.run(["salloc", "-Q", "-N2", "--ntasks-per-node=8", "sh", "-c", script])
    assert ran.code == 0, ran.err
    for n in (2, 3, 4):
        rows = [row for row in ran.rows if row[0] == str(n)]
        assert [row[1:3] for row in rows] == [[str(i), str(n)] for i in range(n)]
    assert len({(row[0], row[3]) for row in ran.rows}) == 3
    assert len({row[3] for row in ran.rows}) == 3, "each step has a port of its own"
    assert len(ran.told) == 3
