"""examples/progress.py works alone, and among ranks."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from gangstart.beatline import read_beats
from lib.world import make_spool, variables
from repo import ROOT

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLE = str(ROOT / "examples" / "progress.py")


def test_it_runs_among_ranks_and_their_last_step_is_told(tmp_path: Path) -> None:
    spool = make_spool(tmp_path / "step")
    running = [
        subprocess.Popen(
            [sys.executable, EXAMPLE],
            env=variables(spool, rank, 3),
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(3)
    ]
    out = [one.communicate(timeout=60)[0] for one in running]
    assert [one.returncode for one in running] == [0, 0, 0]
    assert out[0].startswith("3 ranks have their data (last: rank ")
    newest = read_beats(spool / "user").newest()
    assert {rank: beat.step for rank, beat in newest.items()} == dict.fromkeys(
        range(3), 999
    )


def test_it_runs_alone(tmp_path: Path) -> None:
    alone = ("RANK", "WORLD", "GANGSTART", "SLURM")
    env = variables(tmp_path, 0, 1)
    done = subprocess.run(
        [sys.executable, EXAMPLE],
        env={k: v for k, v in env.items() if not k.startswith(alone)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("1 ranks have their data")
