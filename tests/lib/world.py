"""A world of real processes on this machine that share a step's key, without MPI."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from gangstart.stepkey import NAME, StepKey, line_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMIT_S = 40.0
PRELUDE = """
import json, os, sys, time
import gangstart
rank = int(os.environ["RANK"])
def tell(**facts):
    os.write(1, (json.dumps(facts) + "\\n").encode())
def attempt(*args, **more):
    began = time.monotonic()
    try:
        made = gangstart.barrier(*args, **more)
        tell(passed=made.number, last=made.last_rank, skew=made.skew_s)
        return made
    except gangstart.GangstartError as error:
        missing = [m.rank for m in getattr(error, "missing", ())]
        nodes = [m.node for m in getattr(error, "missing", ())]
        tell(failed=type(error).__name__, missing=missing, nodes=nodes,
             text=str(error), took=time.monotonic() - began)
def waiting():
    tell(ready=True)
    sys.stdin.readline()
"""


def make_spool(folder: Path, key: bytes = bytes(range(32))) -> Path:
    """A step's folder as the plugin leaves it."""
    (folder / "user").mkdir(parents=True)
    path = folder / NAME
    path.write_bytes(line_of(StepKey(key, (0, 0))))
    path.chmod(0o400)
    return folder


def variables(spool: Path, rank: int, world: int) -> dict[str, str]:
    """Environment of a rank as gangstart run leaves it; its node is named by it."""
    clean = ("SLURM", "GANGSTART", "OMPI", "PMI", "RANK", "WORLD", "LOCAL_", "MASTER_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(clean)}
    return kept | {
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "GANGSTART_RUN": "7.0",
        "GANGSTART_STEP": "7.0",
        "GANGSTART_SPOOL": str(spool),
        "GANGSTART_MASTER": "127.0.0.1 -",
        "SLURM_JOB_ID": "7",
        "SLURM_STEP_ID": "0",
        "SLURMD_NODENAME": f"n{rank}",
    }


class World:
    """Ranks that run one program each; ``hear`` reads a rank's next word."""

    def __init__(self, spool: Path, world: int) -> None:
        self.spool, self.world = spool, world
        self.ranks: dict[int, subprocess.Popen[str]] = {}

    def start(self, rank: int, program: str) -> None:
        """Start a rank; the program follows PRELUDE."""
        self.ranks[rank] = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + program],
            env=variables(self.spool, rank, self.world),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def start_all(self, program: str) -> None:
        """Start every rank."""
        for rank in range(self.world):
            self.start(rank, program)

    def hear(self, rank: int) -> dict[str, Any]:
        """The next line of a rank; the test's own time limit ends a long wait."""
        stdout = self.ranks[rank].stdout
        assert stdout is not None
        line = stdout.readline()
        assert line, f"rank {rank} ended: {self.finish(rank)}"
        said: dict[str, Any] = json.loads(line)
        return said

    def go(self, rank: int) -> None:
        """Let a rank go on that stands in waiting()."""
        stdin = self.ranks[rank].stdin
        assert stdin is not None
        stdin.write("\n")
        stdin.flush()

    def kill(self, rank: int) -> None:
        """End a rank without a word."""
        self.ranks[rank].send_signal(signal.SIGKILL)
        self.ranks[rank].wait(LIMIT_S)

    def finish(self, rank: int) -> tuple[int, str]:
        """Wait for the end of a rank; its exit code and stderr."""
        _, err = self.ranks[rank].communicate(timeout=LIMIT_S)
        return self.ranks[rank].returncode, err

    def close(self) -> None:
        """End what still runs."""
        for one in self.ranks.values():
            if one.poll() is None:
                one.kill()
            one.communicate(timeout=LIMIT_S)


@pytest.fixture
def worlds() -> Iterator[list[World]]:
    """Put worlds in; they are ended after the test."""
    made: list[World] = []
    yield made
    for one in made:
        one.close()


def new_world(worlds: list[World], tmp_path: Path, ranks: int) -> World:
    """A world whose folder is the test's own."""
    made = World(make_spool(tmp_path / f"step{len(worlds)}"), ranks)
    worlds.append(made)
    return made
