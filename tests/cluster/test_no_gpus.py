"""Nodes without GPUs: nothing is said, unless Slurm gives some all the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cluster.gang import Gang

EXIT_UNFIT = 69


def has_gpus() -> bool:
    """Whether this machine has a display device of NVIDIA or AMD."""
    vendors = Path("/sys/bus/pci/devices").glob("*/vendor")
    return any(path.read_text().strip() in ("0x10de", "0x1002") for path in vendors)


pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(has_gpus(), reason="this machine has GPUs"),
]


def test_without_gpus_nothing_is_said_of_them(gang: Gang) -> None:
    ran = gang.srun("-N4", "--gang-start=20,health=require,require=strict", "hostname")
    assert ran.code == 0, ran.err
    assert "GPU" not in ran.err
    report = gang.copies()[-1]
    assert report["health"]["verdict"] == "ok"
    assert all(node["health"]["record"]["none"] for node in report["nodes"])
    gang.clean(10)


def test_gpus_that_slurm_gives_and_the_bus_has_not_are_missed(gang: Gang) -> None:
    env = {"SLURM_STEP_GPUS": "0"}
    ran = gang.srun("-N1", "--gang-start=20", "hostname", env=env)
    assert ran.code == 0, ran.err
    assert " fail: n1 " in ran.told[0]
    spec = "--gang-start=20,health=require"
    ran = gang.srun("-N1", spec, *gang.trace(), env=env)
    assert ran.code == EXIT_UNFIT, ran.err
    gang.clean(10)
    assert gang.started() == []
