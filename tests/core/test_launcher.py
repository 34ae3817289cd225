"""Programs that start the processes of a node themselves are recognised."""

from __future__ import annotations

import pytest
from core.c import ffi, lib, text
from core.gangs import Gang, Story


def name_of(*argv: str) -> str | None:
    rows = [ffi.new("char[]", word.encode()) for word in argv]
    found = lib.gs_launcher_name(len(argv), ffi.new("char *[]", rows or [ffi.NULL]))
    return None if found == ffi.NULL else text(found)


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (("torchrun", "--nproc-per-node=8", "train.py"), "torchrun"),
        (("/opt/venv/bin/torchrun", "train.py"), "torchrun"),
        (("python3", "-m", "torch.distributed.run", "train.py"), "torchrun"),
        (
            ("python", "-u", "-m", "torch.distributed.launch", "t.py"),
            "torch.distributed.launch",
        ),
        (("accelerate", "launch", "train.py"), "accelerate"),
        (("deepspeed", "train.py"), "deepspeed"),
    ],
)
def test_a_launcher_is_recognised(argv: tuple[str, ...], name: str) -> None:
    assert name_of(*argv) == name


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ("python", "train.py"),
        ("python", "train.py", "-m", "torch.distributed.run"),
        ("python", "-m", "train"),
        ("torchrunner",),
        ("python", "-m"),
        ("bash", "-c", "torchrun train.py"),
    ],
)
def test_other_programs_are_not(argv: tuple[str, ...]) -> None:
    assert name_of(*argv) is None


def test_a_launcher_with_several_tasks_on_a_node_is_warned_of() -> None:
    gang = Gang(nodes=2, per_node=2)
    gang.everybody()
    said = Story(gang, launcher="torchrun").start()
    assert "torchrun starts the processes of a node itself" in said


def test_a_launcher_with_one_task_per_node_is_fine() -> None:
    gang = Gang(nodes=2, per_node=1)
    gang.everybody()
    assert "warning" not in Story(gang, launcher="torchrun").start()
