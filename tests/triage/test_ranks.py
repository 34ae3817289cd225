"""Lists of ranks: read as they are meant, and never larger than they may be."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from gangstart.triage.ranks import LINE_MOST, expand

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("0-3,9", (0, 1, 2, 3, 9)),
        ("0-1, 4", (0, 1, 4)),
        ("3-1", ()),
        ("0-99999999", ()),
        ("0-9999999", ()),
        ("0-999999,0-999999", ()),
        ("x", ()),
    ],
)
def test_a_list_of_ranks(text: str, expected: tuple[int, ...]) -> None:
    assert expand(text) == expected


def test_a_few_lines_that_stand_for_billions_of_ranks_cost_nothing(
    tmp_path: Path,
) -> None:
    ranks = ",".join(["0-99999"] * 100)
    lines = [
        f"srun: error: n{i}: tasks {ranks}: Exited with exit code 1\n"
        for i in range(40)
    ]
    log = tmp_path / "slurm-7.out"
    log.write_text("".join(lines))
    command = (
        f'ulimit -v 2000000; exec "{sys.executable}" -m gangstart triage --log "$0"'
    )
    done = subprocess.run(
        ["sh", "-c", command, log],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "exit code 1" in done.stdout
    assert expand(ranks, LINE_MOST) == ()
