"""`gangstart cluster` when something breaks: it says why and leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import gangstart
import pytest
import slurmroot
from clustertool import (
    place,
    start_up,
    tool,
    traces,
    until,
)
from gangstart.cluster import Cluster, Spec, process, state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.cluster


@pytest.fixture
def bin_with() -> Iterator[Callable[[str, str], dict[str, str]]]:
    """Put a program of the test's own before Slurm's: an environment with its PATH."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:

        def make(program: str, script: str) -> dict[str, str]:
            path = Path(folder, program)
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
            return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}

        yield make


@pytest.mark.parametrize("program", ["munged", "slurmctld", "slurmd"])
def test_an_up_that_fails_says_why_and_leaves_nothing(
    name: str, program: str, bin_with: Callable[[str, str], dict[str, str]]
) -> None:
    if not slurmroot.own():
        pytest.skip("another root has its own PATH, in which nothing can be put")
    script = f'[ "$1" = -V ] && exit; echo "{program}: fatal: port in use" >&2; exit 3'
    shown = tool("up", "--name", name, "--no-plugin", env=bin_with(program, script))
    assert (shown.returncode, shown.stdout) == (1, "")
    assert shown.stderr.count("\n") == 1
    assert "ended with code 3" in shown.stderr
    assert f"{program}: fatal: port in use" in shown.stderr
    assert traces(place(name)) == []


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_an_up_that_is_interrupted_leaves_nothing(
    name: str,
    number: signal.Signals,
    code: int,
    bin_with: Callable[[str, str], dict[str, str]],
) -> None:
    going = start_up(name, env=bin_with("slurmctld", "exec sleep 300"))
    log = Path(place(name), "log", "slurmctld.err")
    until(log.exists, "slurmctld to be started")
    going.send_signal(number)
    assert going.communicate(timeout=30) == ("", "")
    assert going.returncode == code
    assert traces(place(name)) == []


def test_down_ends_what_a_killed_up_left(
    name: str, bin_with: Callable[[str, str], dict[str, str]]
) -> None:
    going = start_up(name, env=bin_with("slurmctld", "exec sleep 300"))
    log = Path(place(name), "log", "slurmctld.err")
    until(log.exists, "slurmctld to be started")
    going.kill()
    going.communicate(timeout=30)
    assert traces(place(name)) != []
    assert tool("down", "--name", name).returncode == 0
    assert traces(place(name)) == []


def test_down_works_after_the_keeper_died(name: str) -> None:
    Cluster.up(slurmroot.placed(Spec(name=name, nodes=2)))
    one = Cluster(name)
    os.kill(one.state.keeper, signal.SIGKILL)
    until(lambda: not process.keeper_alive(one.state), "the keeper to end")
    ran = tool("run", "--name", name, "--", "true")
    assert ran.returncode == 1
    assert f"gangstart cluster down --name {name}" in ran.stderr
    assert (
        json.loads(tool("status", "--name", name, "--json").stdout)["phase"] == "ended"
    )
    assert tool("down", "--name", name).returncode == 0
    assert traces(place(name)) == []


def test_down_works_when_slurmd_is_stopped_and_jobs_ignore_term(name: str) -> None:
    one = Cluster.up(slurmroot.placed(Spec(name=name, nodes=2)))
    stubborn = one.popen(
        ["srun", "-N2", "sh", "-c", "trap '' TERM; touch /run/gangstart/on; sleep 300"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until((one.directory / "node/n2/run/on").exists, "the job")
    one.signal_slurmd("n2", "stop")
    assert tool("down", "--name", name).returncode == 0
    stubborn.wait(30)
    assert traces(place(name)) == []


def test_down_after_a_restart_of_the_machine_touches_no_process(name: str) -> None:
    # What a restart leaves: the files, and a state that names another boot, and a
    # keeper's pid that now is somebody else's. Here: this test's own.
    directory = state.claim(state.base(), name, "")
    own = process.start_time(os.getpid())
    assert own is not None
    old = state.State(
        spec=Spec(name=name, directory=str(directory)),
        boot_id="another",
        keeper=os.getpid(),
        keeper_start=own,
        spaces={"head": {"net": 0}},
    )
    state.write(old)
    assert "is not running" in tool("run", "--name", name, "--", "true").stderr
    assert tool("down", "--name", name).returncode == 0
    assert not directory.exists()


def test_down_refuses_to_remove_what_is_mounted_inside(name: str) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root to mount")
    Cluster.up(slurmroot.placed(Spec(name=name, nodes=1)))
    inside = Path(place(name), "mnt")
    inside.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", inside], check=True, timeout=30)
    (inside / "precious").touch()
    try:
        gone = tool("down", "--name", name)
        assert gone.returncode == 1
        assert f"{inside} is a mount point" in gone.stderr
        assert (inside / "precious").exists()
    finally:
        subprocess.run(["umount", inside], check=True, timeout=30)
    assert tool("down", "--name", name).returncode == 0
    assert traces(place(name)) == []


def test_a_cluster_cannot_take_itself_down(cluster: Cluster) -> None:
    argv = [sys.executable, "-m", "gangstart", "cluster", "down"]
    root = str(Path(gangstart.__file__).parent.parent)
    env = {**os.environ, "PYTHONPATH": root}
    ran = cluster.run([*argv, "--name", cluster.spec.name], env=env)
    assert ran.returncode == 1
    assert "runs on one of its nodes" in ran.stderr
    assert cluster.run(["srun", "-N4", "true"]).returncode == 0
