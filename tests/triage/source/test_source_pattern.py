"""Slurm's output patterns mean what Slurm makes of them.

The names expected here are those of files that real Slurm made (22.05 and 24.11); the
test on a live cluster asks the Slurm of this machine again.
"""

from __future__ import annotations

import re

import pytest
from gangstart.triage.source import cmdline, pattern
from gangstart.triage.source.jobfiles import IO_OPTIONS, TORCHRUN_OPTIONS
from gangstart.triage.source.pattern import Names
from hypothesis import given, settings
from hypothesis import strategies as st

BATCH = Names(job=15, name="nm", user="nobody", node="n1", work_dir="/w")
STEP = Names(job=25, name="nm", user="nobody", step="0", node="n1", work_dir="/w")
TASK = Names(
    job=24, array=23, task=3, name="nm", user="nobody", node="n2", work_dir="/w"
)


def path(pattern_: str, names: Names) -> str | None:
    wild = pattern.expand(pattern_, names)
    return wild.fixed if wild else None


def fits(pattern_: str, names: Names, name: str) -> dict[str, str] | None:
    """What the last component of a wild path tells of a file's name."""
    wild = pattern.expand(pattern_, names)
    assert wild is not None
    last = wild.parts[-1]
    if isinstance(last, str):
        return {} if last == name else None
    match = last.fullmatch(name)
    return match.groupdict() if match else None


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ("b1-%j-%J-%s-%t-%n-%N", "b1-15-15-batch-0-0-n1"),
        ("b2-%A-%a-%u-%x", "b2-15-4294967294-nobody-nm"),
        ("b3-%5j-%012j-%3t-%4u-%5x-%05A", "b3-00015-0000000015-000-nobody-nm-00015"),
        ("b4-%%-%q-%j%%", "b4-%-%q-15%"),
        ("b5\\%j", "b5%j"),
        ("b7-%2a-%h-%p", "b7-4294967294-%h-%p"),
        ("b8-%5s-%3N-%2n-%0j", "b8-batch-n1-00-15"),
    ],
)
def test_a_batch_script(given_: str, expected: str) -> None:
    assert path(given_, BATCH) == f"/w/{expected}"


@pytest.mark.parametrize("name", ["b-4", "b-%b"])
def test_the_digit_of_an_array_task_is_left_alone_by_old_releases(name: str) -> None:
    assert fits("b-%b", BATCH, name) == {}


def test_an_array_task() -> None:
    assert path("a1-%A-%a-%j-%3a-%J", TASK) == "/w/a1-23-3-24-003-24"
    assert fits("a-%b", TASK, "a-3") == {}
    assert fits("a-%b", TASK, "a-4") is None


@pytest.mark.parametrize(
    ("given_", "name", "told"),
    [
        ("s1-%j-%J-%s-%t-%n-%N", "s1-25-25.0-0-3-1-n2", ("3", "n2")),
        ("s3-%5j-%3t-%4n-%5s-%5N", "s3-00025-002-0000-00000-n1", ("002", "n1")),
        ("s7-%3t", "s7-003", ("003", None)),
        ("s8-%N", "s8-n2", (None, "n2")),
        ("s-%t-%t", "s-7-7", ("7", None)),
    ],
)
def test_a_step_with_files_for_each_task_or_node(
    given_: str, name: str, told: tuple[str | None, str | None]
) -> None:
    found = fits(given_, STEP, name)

    assert found is not None
    assert (found.get("rank"), found.get("node")) == told


def test_a_file_of_another_job_does_not_fit() -> None:
    assert fits("s-%j-%t", STEP, "s-26-0") is None
    assert fits("s-%t-%t", STEP, "s-1-2") is None
    assert fits("s.%t", STEP, "sx1") is None


def test_folders_may_have_patterns_too() -> None:
    assert path("%x/%j.out", BATCH) == "/w/nm/15.out"


@pytest.mark.parametrize("given_", ["", "/dev/null", "none", "all", "3", "a\0b"])
def test_what_is_no_file(given_: str) -> None:
    assert pattern.expand(given_, BATCH) is None


def test_a_relative_path_without_a_working_directory_is_none() -> None:
    assert pattern.expand("x", Names(job=1)) is None


def test_files_of_nccl() -> None:
    wild = pattern.nccl("logs/nccl.%h.%p.%%", "/w")

    assert wild is not None
    last = wild.parts[-1]
    assert isinstance(last, re.Pattern)
    match = last.fullmatch("nccl.gn01.4711.%")
    assert match is not None
    assert match.groupdict() == {"node": "gn01", "pid": "4711"}


def test_files_of_torchrun() -> None:
    wild = pattern.torchrun("logs", "/w")

    assert wild is not None
    assert wild.parts[:2] == ("w", "logs")
    names = ("none_abc", "attempt_1", "3", "stderr.log")
    for part, name in zip(wild.parts[2:], names, strict=True):
        assert isinstance(part, re.Pattern)
        assert part.fullmatch(name)


@settings(deadline=None)
@given(st.text(), st.text(), st.text())
def test_any_pattern_gives_an_absolute_path_or_none(
    given_: str, name: str, user: str
) -> None:
    names = Names(job=7, name=name, user=user, step="0", work_dir="/w")
    wild = pattern.expand(given_, names)

    if wild is not None:
        assert str(wild).startswith("/")
        assert all(
            isinstance(p, re.Pattern) or "\0" not in p or "\0" in name + user
            for p in wild.parts
        )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("srun -n4 -o a.log -e b.log prog", {"out": "a.log", "err": "b.log"}),
        ("srun -oa.log prog -o other", {"out": "a.log"}),
        ("srun --output=a.log --label prog", {"out": "a.log"}),
        ("srun --label --output a.log prog", {"out": "a.log"}),
        ("srun --ntasks 4 -o a.log prog", {"out": "a.log"}),
        ("srun --gang-start=60 --gang-start -o a prog", {"out": "a"}),
        ("srun python train.py -o model.pt --output x", {}),
        ("sbatch -J x -o %j.out : -o second.out job.sh", {"out": "%j.out"}),
        ("srun -o", {"out": ""}),
        ("", {}),
        ("srun 'unbalanced -o x", {}),
        (r"srun -o a\%j prog", {"out": r"a\%j"}),
    ],
)
def test_options_of_slurm_end_where_the_program_begins(
    line: str, expected: dict[str, str]
) -> None:
    assert cmdline.slurm_options(cmdline.split(line), IO_OPTIONS) == expected


@pytest.mark.parametrize(
    "line", ["torchrun --log-dir L x.py", "srun torchrun --log_dir=L"]
)
def test_options_of_torchrun_are_found_anywhere(line: str) -> None:
    found = cmdline.program_options(cmdline.split(line), TORCHRUN_OPTIONS)

    assert found == {"log": "L"}


@settings(deadline=None)
@given(st.text())
def test_any_command_line_can_be_read(line: str) -> None:
    words = cmdline.split(line)
    cmdline.slurm_options(words, IO_OPTIONS)
    cmdline.program_options(words, TORCHRUN_OPTIONS)
