"""Why a node did not come: what can be found out from outside is told, and is true."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import gangstart
import pytest
import slurmroot
from cluster.gang import Gang, refusal, until, why
from cluster.trouble import on, sabotage, victim
from gangstart.cluster import Spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.cluster

EVERYBODY = ("-N4", "--ntasks-per-node=2")
PATIENCE = 5.0
SPANK = Path(__file__).parents[2] / "spank"
#: Leaves a trace and stays, as a program does that somebody forgot to stop.
STAY = ("/bin/sh", "-c", ': > "$0/ran.$SLURM_PROCID"; exec sleep 300')


@contextlib.contextmanager
def other_file(gang: Gang, node: str, path: Path, content: Path) -> Iterator[None]:
    """Let one node see another file in this place, as after a forgotten update."""
    on(gang.cluster, node, f"mount --bind {content} {path}")
    try:
        yield
    finally:
        on(gang.cluster, node, f"umount {path}")


@pytest.fixture
def hanging(gang: Gang) -> Iterator[Gang]:
    """Run steps while the slurmd of n3 hangs, and put n3 into service after it."""
    gang.cluster.signal_slurmd("n3", "stop")
    yield gang
    gang.cluster.signal_slurmd("n3", "cont")
    # An error where it was never taken out of service.
    gang.cluster.run(["scontrol", "update", "nodename=n3", "state=resume"])


def test_a_draining_node_is_told_with_the_admins_reason(hanging: Gang) -> None:
    drain = "scontrol update nodename=n3 state=drain reason='disk is dying'"
    step = f"srun {' '.join(EVERYBODY)} --gang-start=2 true"
    ran = hanging.run(
        ["salloc", "-Q", "-N4", "--exclusive", "sh", "-c", f"{drain}; {step}"]
    )
    assert refusal(ran) == {"n3": ("4-5", "never connected")}
    told = why(ran, "n3")
    assert told.startswith("node is draining (Reason: disk is dying); slurmd takes")
    assert ran.seconds < 2 + PATIENCE


def test_a_node_that_is_down_is_told_with_the_admins_reason(
    gang_on: Callable[[Spec], Gang],
) -> None:
    # With 2, an answer of slurmd's that is still under way puts it into service again.
    gang = gang_on(Spec(slurm_lines=("ReturnToService=0",)))
    gang.cluster.signal_slurmd("n3", "stop")
    running = gang.start(
        ["srun", "--no-kill", *EVERYBODY, "--gang-start=7", *gang.trace()]
    )
    gang.until_waiting(6)
    down = ["scontrol", "update", "nodename=n3", "state=down", "reason=no power"]
    assert gang.run(down).code == 0
    ran = running.wait()
    gang.cluster.signal_slurmd("n3", "cont")
    assert refusal(ran) == {"n3": ("4-5", "never connected")}
    assert why(ran, "n3").startswith("node is DOWN (Reason: no power); slurmd takes")
    assert gang.started() == []
    until(lambda: gang.pids("slurmstepd") == {}, "the late launch to end")


def test_a_prolog_that_still_runs_is_told(gang_on: Callable[[Spec], Gang]) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as shared:
        go, prolog = Path(shared, "go"), Path(shared, "prolog")
        wait = f"while [ ! -e {go} ]; do sleep 0.05; done"
        prolog.write_text(f'#!/bin/sh\n[ "$SLURMD_NODENAME" != n3 ] || {wait}\n')
        prolog.chmod(0o755)
        gang = gang_on(Spec(slurm_lines=(f"Prolog={prolog}",)))
        ran = gang.srun(*EVERYBODY, "--gang-start=3", *gang.trace())
        assert set(refusal(ran)) == {"n3"}
        found = re.fullmatch(
            r"slurmd answers; Prolog running for (\d+) s", why(ran, "n3")
        )
        assert found
        assert int(found[1]) in {2, 3, 4}
        go.touch()
        gang.clean(30)
    assert gang.started() == []


def test_a_node_without_the_plugin_is_told_and_its_tasks_end(gang: Gang) -> None:
    plugstack = gang.cluster.directory / "etc" / "plugstack.conf"
    empty = gang.folder / "plugstack.empty"
    empty.touch()
    with other_file(gang, "n3", plugstack, empty):
        ran = gang.srun(*EVERYBODY, "--gang-start=3", *STAY, gang.folder)
        assert refusal(ran) == {"n3": ("4-5", "never connected")}
        told = why(ran, "n3")
        assert "2 processes of the step run there without us: plugin not load" in told
        # Nobody could keep them from starting; they must not stay.
        assert gang.started() == [4, 5]
        gang.clean(20)


def test_short_tasks_without_the_plugin_are_no_start_of_the_others(gang: Gang) -> None:
    plugstack = gang.cluster.directory / "etc" / "plugstack.conf"
    empty = gang.folder / "plugstack.empty"
    empty.touch()
    with other_file(gang, "n3", plugstack, empty):
        ran = gang.srun(*EVERYBODY, "--gang-start=3", *gang.trace())
        assert refusal(ran) == {"n3": ("4-5", "never connected")}
        assert why(ran, "n3").endswith("or without us (plugin not loaded there?)")
        assert gang.started() == [4, 5]
        gang.clean(20)


def build_plugin(target: Path, version: str) -> None:
    """Build the plugin as another release: it differs in nothing but its number."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs gcc (apt-get install gcc)")
    sources = [
        path for name in ("core", "plugin") for path in (SPANK / name).glob("*.c")
    ]
    subprocess.run(
        [
            *(compiler, "-shared", "-fPIC", "-std=gnu11", "-pthread", "-D_GNU_SOURCE"),
            *(f'-DGS_VERSION="{version}"', f"-I{SPANK}/core", f"-I{SPANK}/plugin"),
            f"-I{slurmroot.include(target.parent)}",
            f"-Wl,--version-script={SPANK}/plugin/exports.map,-z,nodelete",
            *("-o", str(target), *map(str, sources)),
        ],
        check=True,
        timeout=120,
    )


def test_a_node_with_another_version_is_refused_with_both_versions(gang: Gang) -> None:
    installed = Path(gang.cluster.spec.plugin or "")
    other = gang.folder / "other.so"
    build_plugin(other, "9.9.9")
    with other_file(gang, "n3", installed, other):
        ran = gang.srun(*EVERYBODY, "--gang-start=60", *gang.trace())
    line = refusal(ran, code=78)["n3"][1]
    ours = gangstart.__version__
    assert f"the plugin is 9.9.9 on n3 and {ours} in srun" in line
    assert ran.seconds < PATIENCE, "at once"
    gang.clean(10)
    assert gang.started() == []


@pytest.mark.parametrize(
    ("does", "words"),
    [("hold", "is stopped"), ("sink", "in D state")],
    ids=["stopped", "D state"],
)
def test_what_the_kernel_says_of_a_late_task_is_told(
    sabotaged: Gang, does: str, words: str
) -> None:
    gang, late = sabotaged, sabotaged.folder / "late"
    running = gang.start(
        ["srun", *EVERYBODY, "--gang-start=4", *gang.trace()],
        env=sabotage("task_init", "4", f"{does}={late}"),
    )
    gang.until_waiting(7)
    pid = victim(gang, "saboteur", "n3")
    if does == "hold":
        os.kill(pid, signal.SIGSTOP)
    ran = running.wait()
    assert refusal(ran) == {"n3": ("4-5", "rank 4 not started")}
    assert re.search(rf"rank 4 not started: pid {pid} {words}", why_line(ran.told))
    gang.clean(20)
    assert gang.started() == []


def why_line(told: list[str]) -> str:
    """Return the line about n3."""
    return next(line for line in told if line.startswith("  n3 "))


@pytest.fixture
def program(gang: Gang) -> Iterator[Path]:
    """Put a program into the /tmp of three nodes: each node has a /tmp of its own."""
    path = Path("/tmp", f"hard.{os.getpid()}")  # noqa: S108 - each node has its own  # noqa: S108  a node's own
    for node in ("n1", "n2", "n4"):
        on(gang.cluster, node, f"cp /bin/true {path}")
    yield path
    for node in gang.cluster.nodes:
        on(gang.cluster, node, f"rm -f {path}")


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        ("true", "No such file or directory"),
        ("touch {}", "Permission denied"),
        ("mkdir {}", "Is a directory"),
    ],
)
def test_a_program_that_one_node_cannot_execute_is_refused(
    gang: Gang, program: Path, prepare: str, words: str
) -> None:
    on(gang.cluster, "n3", prepare.format(program))
    try:
        ran = gang.srun(*EVERYBODY, "--gang-start=20", program)
    finally:
        gang.cluster.run(["rmdir", str(program)], node="n3")
    assert refusal(ran) == {"n3": ("4-5", f"cannot execute {program}: {words}")}
    assert gang.copies()[-1]["reason"] == "program_missing"
    assert ran.seconds < PATIENCE
    gang.clean(10)


def test_a_program_that_nobody_has_is_slurms_to_refuse(gang: Gang) -> None:
    ran = gang.srun(*EVERYBODY, "--gang-start=20", "/nonexistent/program")
    assert ran.code == 2, ran.err
    assert "refused after" not in ran.err
    assert "execve(): /nonexistent/program: No such file or directory" in ran.err
    gang.clean(10)


def on_terminal(gang: Gang, *words: str) -> tuple[int, str]:
    """Run srun with a terminal as its stderr; return its code and what that showed."""
    ours, theirs = pty.openpty()
    shown = bytearray()
    popen = gang.cluster.popen(
        ["srun", *words], env=gang.env, cwd=gang.folder, stderr=theirs, stdin=theirs
    )
    os.close(theirs)
    with contextlib.suppress(OSError):  # EIO: nobody has the other side any more
        while chunk := os.read(ours, 4096):
            shown += chunk
    os.close(ours)
    return popen.wait(30), shown.decode()


def test_on_a_terminal_one_line_tells_who_is_waited_for(hanging: Gang) -> None:
    code, shown = on_terminal(hanging, *EVERYBODY, "--gang-start=3", "true")
    assert code == 75, shown
    clear = "\r\033[K"
    waits = [part for part in shown.split(clear) if "waiting for" in part]
    assert len(waits) >= 3, "it is updated"
    told = [
        re.fullmatch(r"gang-start: waiting for 1 of 4 nodes: n3 \((\d) s\)", w)
        for w in waits
    ]
    assert all(told), shown
    assert [int(w[1]) for w in told if w] == sorted(int(w[1]) for w in told if w)
    assert int(waits[0][-4]) >= 1, "not before a second has passed"
    # It is gone before the lines that stay.
    assert shown.rpartition(clear)[2].startswith("gang-start: step ")
    assert "waiting for" not in shown.rpartition(clear)[2]


def test_in_a_pipe_there_is_no_waiting_line(hanging: Gang) -> None:
    ran = hanging.srun(*EVERYBODY, "--gang-start=2", "true")
    assert set(refusal(ran)) == {"n3"}
    assert "waiting for" not in ran.err
    assert "\033" not in ran.err
