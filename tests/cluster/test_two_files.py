"""What a compute node needs: the two files and the line, and no Python."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import gangstart
import pytest
import slurmroot
from gangstart.cluster import Spec, lifecycle

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.gang import Gang

pytestmark = pytest.mark.cluster

NAMES = ("spank_gangstart.so", "gangstart-probe")


def bind(gang: Gang, node: str, source: Path, target: Path) -> None:
    """Let a node see something else at a path."""
    code = (
        "import sys; from gangstart.cluster import kernel as k; k.bind(*sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, str(source), str(target)]
    done = gang.cluster.run(command, node=node)
    assert done.returncode == 0, done.stderr


def hide_python(gang: Gang, node: str) -> None:
    """Leave a node without any Python that it has."""
    listed = gang.cluster.run(["sh", "-c", "ls /usr/bin/python3*"], node=node).stdout
    # The one that binds is the last to go.
    for path in (*listed.split(), sys.executable):
        bind(gang, node, Path("/dev/null"), Path(path))


def test_a_compute_node_needs_two_files_and_no_python(
    gang_on: Callable[[Spec], Gang],
) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root, to mount on nodes")
    gang = gang_on(Spec(nodes=3, slurm_lines=("ProctrackType=proctrack/pgid",)))
    built = lifecycle.built_plugin(slurmroot.root())
    assert built is not None
    files = (Path(built), Path(gangstart.__file__).with_name("gangstart-probe"))
    place = gang.folder / "lib"
    place.mkdir()
    for node in ("head", *gang.cluster.nodes):
        own = gang.folder / f"lib-{node}"
        own.mkdir()
        for file, name in zip(files, NAMES, strict=True):
            shutil.copy2(file, own / name)
        bind(gang, node, own, place)
        if node != "head":
            hide_python(gang, node)
    line = f"optional {place}/spank_gangstart.so spool=/run/gangstart"
    with gang.plugstack(line):
        for node in gang.cluster.nodes:
            gang.cluster.signal_slurmd(node, "kill")
            gang.cluster.start_slurmd(node)
        look = f"ls {place}; /usr/bin/python3 -V 2>/dev/null && echo python; true"
        ran = gang.srun("-N3", "--gang-start=20,health=record", "sh", "-c", look)
        assert ran.code == 0, ran.err
        assert "gang-start: 3/3 tasks on 3/3 nodes" in ran.err
        assert sorted(set(ran.out.split())) == sorted(NAMES)
        command = [sys.executable, "-m", "gangstart", "doctor", "--nodes", "all"]
        told = gang.run(command)
        assert told.code == 0, told.out + told.err
        gang.quiet()
