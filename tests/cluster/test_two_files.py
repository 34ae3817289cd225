"""What a compute node needs: the two files and the line, and no Python."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gangstart.cluster import Spec
from install.site import LIB, Machine

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.gang import Gang

pytestmark = pytest.mark.cluster

NAMES = {"gangstart-probe", "spank_gangstart.so"}


def hide_python(gang: Gang, node: str) -> None:
    """Leave a node without any Python that this machine has."""
    found = {Path(sys.executable).resolve(), *Path("/usr/bin").glob("python3*")}
    for path in found:
        if path.is_file():
            ran = gang.cluster.run(
                ["mount", "--bind", "/dev/null", str(path.resolve())], node=node
            )
            assert ran.returncode == 0, ran.stderr


def test_a_compute_node_needs_two_files_and_no_python(
    gang_on: Callable[[Spec], Gang], tmp_path: Path
) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root, to mount on nodes")
    gang = gang_on(Spec(nodes=3, slurm_lines=("ProctrackType=proctrack/pgid",)))
    machine = Machine(tmp_path)
    machine.install("--files-only")
    place = gang.folder / "lib"
    place.mkdir()
    for node in ("head", *gang.cluster.nodes):
        own = gang.folder / f"lib-{node}"
        own.mkdir()
        for name in NAMES:
            shutil.copy2(machine.root / LIB / name, own)
        bind = ["mount", "--bind", str(own), str(place)]
        done = gang.cluster.run(bind, node=node)
        assert done.returncode == 0, done.stderr
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
