"""examples/train_ddp.py: it learns, its ranks agree, and it says how to start it."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "train_ddp.py"
NEEDED = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
MISSING = [m for m in ("torch", "sklearn") if importlib.util.find_spec(m) is None]

pytestmark = pytest.mark.skipif(
    bool(MISSING),
    reason=f"{' and '.join(MISSING)} not installed (make setup brings them)",
)


def free_port() -> int:
    """A TCP port that nothing on the loopback listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(*args: str, **injected: str) -> subprocess.Popen[str]:
    """One task of the example, with this environment and no other start's."""
    clean = {k: v for k, v in os.environ.items() if k not in NEEDED}
    return subprocess.Popen(
        [sys.executable, str(EXAMPLE), *args],
        env=clean | injected,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(task: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a task; a stuck one is killed."""
    try:
        out, err = task.communicate(timeout=90)
    finally:
        task.kill()
    return task.returncode, out, err


def test_two_ranks_learn_the_digits_and_agree_on_the_weights() -> None:
    port = str(free_port())
    ranks = [
        start(
            RANK=str(rank),
            LOCAL_RANK=str(rank),
            WORLD_SIZE="2",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=port,
            CUDA_VISIBLE_DEVICES="",
        )
        for rank in range(2)
    ]
    try:
        (code, out, err), (other_code, other_out, other_err) = map(finish, ranks)
    finally:
        for task in ranks:
            task.kill()

    assert code == 0, err
    assert other_code == 0, other_err
    assert other_out == "", "only rank 0 prints"
    losses = [float(x) for x in re.findall(r"loss ([\d.]+)", out)]
    assert len(losses) == 8
    assert losses[-1] < losses[0] / 4, "the loss falls"
    assert float(re.findall(r"test accuracy ([\d.]+)", out)[-1]) > 0.9
    assert re.search(r"^all 2 ranks agree: sha256 [0-9a-f]{64} ", out, re.MULTILINE)


def test_without_a_start_it_says_how_to_be_started() -> None:
    code, out, err = finish(start())

    assert code == 1
    assert out == ""
    assert err.count("\n") == 1, err
    assert "MASTER_ADDR" in err
    assert "srun" in err
    assert "--gang-start" in err
    assert "torchrun" in err


def test_half_an_environment_names_only_what_is_missing() -> None:
    code, _, err = finish(start(RANK="0", LOCAL_RANK="0", WORLD_SIZE="2"))

    assert code == 1
    assert err.startswith("train_ddp.py: MASTER_ADDR, MASTER_PORT not set")


def test_a_master_that_nobody_reaches_ends_in_one_sentence() -> None:
    code, _, err = finish(
        start(
            "--wait",
            "2",
            RANK="1",
            LOCAL_RANK="0",
            WORLD_SIZE="2",
            MASTER_ADDR="no-such-node.invalid",
            MASTER_PORT="29500",
        )
    )

    assert code == 1
    assert "Traceback" not in err
    assert "rank 1 of 2 did not join gloo at no-such-node.invalid:29500" in err
