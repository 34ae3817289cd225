"""What the library costs a training: a heartbeat per step, and the import."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.place import ROOT
from bench.table import fail, heading

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.table import Figures

CALLS = 200_000
ROUNDS = 15
GOAL_US = 5.0
RANKS = 8
MEETINGS = 200
MEET = (
    "import gangstart, os, time\n"
    "gangstart.barrier(60)\n"
    "began = time.perf_counter()\n"
    f"for _ in range({MEETINGS}): gangstart.barrier(60)\n"
    f"print((time.perf_counter() - began) / {MEETINGS} * 1e3)\n"
)


def per_call_us(call: Callable[[int], object]) -> float:
    """Time one call in a loop, in microseconds."""
    begun = time.perf_counter()
    for step in range(CALLS):
        call(step)
    return (time.perf_counter() - begun) / CALLS * 1e6


def clock(_step: int) -> float:
    """Read the clock: what any heartbeat has to do at least."""
    return time.monotonic()


def measure(figures: Figures) -> None:
    """Time heartbeats with a spool, beside a function that reads the clock."""
    sys.path[:0] = [str(ROOT / "launcher"), str(ROOT / "tests")]
    from lib.world import make_spool, variables  # noqa: PLC0415 - of the tests

    heading("the library")
    with tempfile.TemporaryDirectory() as folder:
        spool = make_spool(Path(folder) / "step")
        os.environ.update(variables(spool, 0, RANKS))
        heartbeats(figures, spool)
        barriers(figures, spool)
    imports(figures)


def heartbeats(figures: Figures, spool: Path) -> None:
    """One call per step, as a training makes it."""
    from gangstart.beat import heartbeat  # noqa: PLC0415 - after build

    bare, ours = [], []
    for _ in range(ROUNDS):
        bare.append(per_call_us(clock))
        ours.append(per_call_us(lambda step: heartbeat(step, loss=0.5, phase="train")))
    if not list((spool / "user").glob("*.jsonl")):
        fail("no heartbeat was written")
    figures.spread("function that reads time.monotonic()", bare, "us")
    figures.spread("heartbeat(step, loss=, phase=)", ours, "us", GOAL_US)
    figures.add("heartbeat / reading the clock", median(ours) / median(bare), "x")


def barriers(figures: Figures, spool: Path) -> None:
    """Ranks of one machine that share its CPUs."""
    from lib.world import variables  # noqa: PLC0415 - of the tests

    running = [
        subprocess.Popen(
            [sys.executable, "-c", MEET],
            env=variables(spool, rank, RANKS) | {"PYTHONPATH": str(ROOT / "launcher")},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(RANKS)
    ]
    took = [float(one.communicate(timeout=120)[0]) for one in running]
    figures.spread(f"barrier() of {RANKS} ranks on one machine", took, "ms")


def imports(figures: Figures) -> None:
    """What Python itself says that the imports take."""
    env = os.environ | {"PYTHONPATH": str(ROOT / "launcher")}
    for code, goal in (
        ("import gangstart", 2.0),
        ("from gangstart import current", None),
    ):
        argv = [sys.executable, "-X", "importtime", "-c", code]
        took = []
        for _ in range(ROUNDS):
            done = subprocess.run(
                argv, env=env, check=True, capture_output=True, text=True
            )
            rows = [line.split("|") for line in done.stderr.splitlines()]
            outer = [int(row[1]) for row in rows if row[2].startswith(" gangstart")]
            took.append(sum(outer) / 1000)
        figures.spread(f"{code} (-X importtime)", took, "ms", goal)
