"""Options of srun that change how tasks are launched: a start is the same by each."""

from __future__ import annotations

import os
import pty
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from cluster.launching import (
    CODE,
    FLAG,
    SHORT,
    check_line,
    check_plain,
    check_refused,
    check_started,
    check_world,
    need,
    rows_of,
    who,
)

if TYPE_CHECKING:
    from cluster.gang import Gang

pytestmark = pytest.mark.cluster


@dataclass(frozen=True)
class Way:
    """One way to launch four tasks."""

    options: tuple[str, ...] = ("-N4", "-n4")
    #: Command of an allocation around it.
    within: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    #: Another test has its refusals.
    refuses: bool = True


SABOTEURS = "SABOTEUR_HOOK,SABOTEUR_WHO,SABOTEUR_DOES"
ALL = ("salloc", "-Q", "-N4", "--ntasks-per-node=2")
WAYS = {
    "alone": Way(),
    "in an allocation": Way(("-n4",), within=ALL),
    "a part of one by number": Way(("-N2", "-n4", "-r", "1"), within=ALL),
    "a part of one by name": Way(("-N2", "-n4", "-w", "n2,n4"), within=ALL),
    "overlap": Way(("-N4", "-n4", "--overlap"), within=ALL),
    "exact": Way(("-N2", "-n4", "-c1", "--exact"), within=ALL),
    "labelled": Way(("-N4", "-n4", "--label")),
    "environment of none": Way(("-N4", "-n4", "--export=NONE"), refuses=False),
    "environment of some": Way(("-N4", "-n4", f"--export=NEW=1,PATH,{SABOTEURS}")),
    "wait": Way(("-N4", "-n4", "--wait=9"), refuses=False),
    "kill on bad exit": Way(("-N4", "-n4", "-K1"), refuses=False),
    "no kill": Way(("-N4", "-n4", "--no-kill"), refuses=False),
    "time at least": Way(("-N4", "-n4", "-t", "9", "--time-min=1")),
    "no input": Way(("-N4", "-n4", "--input=none")),
    "input for one task": Way(("-N4", "-n4", "--input=2")),
    "unbuffered": Way(("-N4", "-n4", "--unbuffered")),
    "another folder": Way(("-N4", "-n4", "--chdir=/")),
    "ports reserved by Slurm": Way(("-N4", "-n4", "--resv-ports")),
    "quit on interrupt": Way(("-N4", "-n4", "--quit-on-interrupt")),
    "threads of a core": Way(("-N4", "-n4", "--threads-per-core=1")),
    "tres per task": Way(
        ("-N4", "-n4", "--tres-per-task=cpu=1"), needs=("--tres-per-task=cpu=1",)
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_start_a_refusal_and_a_step_without_the_flag(
    sabotaged: Gang, way: Way
) -> None:
    gang = sabotaged
    need(gang.cluster, *way.needs)
    launch = [*way.within, "srun", *way.options]
    check_started(gang, gang.run([*launch, FLAG, who(gang)]), 4)
    gang.quiet()
    check_plain(gang.run([*launch, who(gang)]), 4)
    gang.quiet()
    if way.refuses:
        check_refused(gang, 1, [*launch, SHORT, *gang.trace()])


def mpi_types(gang: Gang) -> str:
    """What --mpi can be, as srun tells it."""
    ran = gang.srun("--mpi=list")
    return ran.out + ran.err


@pytest.mark.parametrize("kind", ["none", "pmi2", "pmix"])
def test_beside_slurms_own_mpi(sabotaged: Gang, kind: str) -> None:
    gang = sabotaged
    if kind not in mpi_types(gang):
        pytest.skip(f"srun has no --mpi={kind}")
    launch = ("-N4", "-n4", f"--mpi={kind}")
    check_started(gang, gang.srun(*launch, FLAG, who(gang)), 4)
    gang.quiet()
    check_refused(gang, 1, ["srun", *launch, SHORT, *gang.trace()])


def test_a_program_that_is_copied_to_the_nodes_first(sabotaged: Gang) -> None:
    gang = sabotaged
    copied = ("-N4", "-n4", "--bcast=/tmp/copied")
    check_started(gang, gang.srun(*copied, FLAG, who(gang)), 4)
    gang.quiet()
    check_refused(gang, 1, ["srun", *copied, SHORT, *gang.trace()])


def test_several_programs_are_one_world(sabotaged: Gang) -> None:
    gang, conf = sabotaged, sabotaged.folder / "programs"
    conf.write_text(f"0-1 {who(gang)}\n2,3 /bin/sh {who(gang)} %t %o\n")
    launch = ("-N4", "-n4", "--multi-prog")
    check_started(gang, gang.srun(*launch, FLAG, conf), 4)
    gang.quiet()
    check_plain(gang.srun(*launch, conf), 4)
    gang.quiet()
    trace = gang.folder / "trace.sh"
    trace.write_text(f": >{gang.folder}/ran.$1\n")
    conf.write_text(f"* /bin/sh {trace} %t\n")
    check_refused(gang, 1, ["srun", *launch, SHORT, conf])


def test_files_for_each_task_get_its_words_and_ours_stay_in_the_terminal(
    gang: Gang,
) -> None:
    given = gang.folder / "in"
    given.write_text("given\n")
    script = gang.folder / "read.sh"
    script.write_text(f"#!/bin/sh\nread word\necho $word\n. {who(gang)}\n")
    script.chmod(0o755)
    ran = gang.srun(
        *("-N2", "-n4", f"--input={given}", "--output=o.%t.%N", "--error=e.%t"),
        *(FLAG, script),
    )
    assert ran.code == CODE, ran.err
    check_line(ran.told, 4)
    outs = sorted(gang.folder.glob("o.*"))
    assert [path.name.split(".")[1] for path in outs] == list("0123")
    texts = [path.read_text() for path in outs]
    assert all(text.startswith("given\n") for text in texts), texts
    check_world(gang, "".join(texts), 4)
    for path, text in zip(outs, texts, strict=True):
        assert rows_of(text)[0][3] == path.name.split(".")[2]
    assert [path.read_text() for path in sorted(gang.folder.glob("e.*"))] == [""] * 4
    gang.clean(10)


def test_a_task_in_a_terminal_of_its_own(gang: Gang) -> None:
    near, far = pty.openpty()
    try:
        words = ["srun", "-N2", "-n2", "--pty", FLAG, str(who(gang))]
        ran = gang.start(words, stdin=far).wait()
    finally:
        os.close(near)
        os.close(far)
    assert ran.code == CODE, ran.err
    check_line(ran.told, 2)
    (first,) = [row for row in rows_of(ran.out) if row[0] == "0"]
    assert first[4:9] == ["0", "0", "0", "2", "1"]
    gang.clean(10)


def test_the_daemons_of_another_launcher_are_left_alone(gang: Gang) -> None:
    need(gang.cluster, "--external-launcher")
    # As mpirun starts them, and by the shortest beginning that srun takes.
    for option in ("--external-launcher", "--exte"):
        check_plain(gang.srun("-N2", option, FLAG, who(gang)), 2)
        gang.quiet()
    gang.clean(10)
