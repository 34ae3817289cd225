"""Reading a million lines for triage beside grep looking for the same literals."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from bench.table import heading, note

if TYPE_CHECKING:
    from bench.table import Figures

LINES = 1_000_000
RUNS = 7
RATIO = 1.5
MORE_MIB = 64
READ = """
import re, sys, time
from pathlib import Path
def peak():  # of this process alone: getrusage also counts what it was forked from
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
before = peak()
from gangstart.triage import offline
from gangstart.triage.judge import judge
from gangstart.triage.scan import scanner
scanner()
begun = time.perf_counter()
verdict = judge(offline.read_all(offline.empty(""), [Path(sys.argv[1])]))
took = time.perf_counter() - begun
print(took, (peak() - before) / 1024, verdict.code, verdict.rank)
"""


def line(number: int) -> str:
    """A line as a training with NCCL_DEBUG=INFO writes them, about 100 bytes."""
    rank, second = number % 64, number // 300
    end = LINES * 9 // 10  # where rank 17 fails; the others wait until they give up
    if number == end:
        return "[rank17]: KeyError: 'shard-00931'"
    if number > end and number % 500 == 0:
        return (
            f"[rank{rank}]:[E0511 11:{second // 60 % 60:02d}:{second % 60:02d}.4 "
            f"ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective "
            "operation timeout: WorkNCCL(SeqNum=48213, OpType=ALLREDUCE, NumelIn=4, "
            "NumelOut=4, Timeout(ms)=1800000) ran for 1800021 milliseconds"
        )
    if number < end and number % 10 == 0:
        return (
            f"{rank}: 2026-05-11 10:{second // 60 % 60:02d}:{second % 60:02d} | INFO | "
            f"step {number} loss 2.9{number % 1000:03d} lr 1.5e-04 tok/s/gpu 11290 m 61"
        )
    return (
        f"n{rank // 8:03d}:90{rank:02d}:9{number % 1000:03d} [{rank % 8}] NCCL INFO "
        f"Channel {number % 32:02d}/0 : {rank}[{rank % 8}] -> {number % 64}[0] via "
        "P2P/CUMEM/read of 16"
    )


def measure(figures: Figures) -> None:
    """Read the log with triage and with grep, turn by turn."""
    from gangstart.triage.scan import scanner  # noqa: PLC0415 - only this part needs it

    heading("triage: a million lines")
    with tempfile.TemporaryDirectory() as folder:
        log, literals = Path(folder) / "job.out", Path(folder) / "literals"
        log.write_text("".join(f"{line(n)}\n" for n in range(LINES)))
        found = sorted({one.strip(b"\n") for one in scanner().literals})
        literals.write_bytes(b"".join(one + b"\n" for one in found))
        size = log.stat().st_size / 1e6
        note(f"{size:.0f} MB, {len(found)} literals, page cache warm")
        ours, theirs, memory, verdict = [], [], 0.0, ""
        for _ in range(RUNS):
            theirs.append(grep(literals, log))
            took, more, verdict = read(log)
            ours.append(took)
            memory = max(memory, more)
        note(f"found: {verdict}")
    figures.spread("triage: read, classify, judge", ours, "s")
    figures.spread("grep -cF -f of the same literals", theirs, "s")
    figures.add("triage beside grep", median(ours) / median(theirs), "x", RATIO)
    figures.add("triage: memory beside the interpreter's", memory, "MiB", MORE_MIB)


def grep(literals: Path, log: Path) -> float:
    """Seconds that grep takes; its count goes through a pipe."""
    begun = perf_counter()
    subprocess.run(
        ["/usr/bin/env", "grep", "-cF", "-f", literals, log],
        stdout=subprocess.PIPE,
        env=os.environ | {"LC_ALL": "C"},
        check=False,
    )
    return perf_counter() - begun


def read(log: Path) -> tuple[float, float, str]:
    """Seconds, MiB beside the interpreter and what was found, in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", READ, log], capture_output=True, text=True, check=True
    )
    took, more, code, rank = done.stdout.split()
    return float(took), float(more), f"{code} of rank {rank}"
