"""Reading ten thousand start reports for history, in a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench.table import heading, note

if TYPE_CHECKING:
    from typing import Any

    from bench.table import Figures

REPORTS = 10_000
NODES, FLEET, TASKS, GPUS, READINGS = 8, 200, 8, 8, 40
RUNS = 3
SECONDS, MORE_MIB = 10.0, 64
WITH_GPUS = 500  # a report of 64 GPUs with every reading is 100 times as large
READ = """
import re, sys, time
from pathlib import Path
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
from gangstart import history
from gangstart.report_find import Places
before = peak()
begun, used = time.perf_counter(), time.process_time()
told = history.collect(Places(Path(sys.argv[1]), Path("/nonexistent"), [], []))
took, used = time.perf_counter() - begun, time.process_time() - used
print(took, used, (peak() - before) / 1024, told.reading.starts, len(told.nodes))
"""


def gpu_record() -> dict[str, Any]:
    """What a node tells of its GPUs, about as large as a real one."""
    readings = {f"reading_number_{n}": n * 1000 for n in range(READINGS)}
    gpus = [
        {"verdict": "ok", "index": n, "uuid": "GPU-" + "0" * 36, "readings": readings}
        for n in range(GPUS)
    ]
    record = {"verdict": "ok", "none": False, "gpus": gpus, "findings": []}
    return {"verdict": "ok", "why": "", "record": record}


def report(job: int, *, gpus: bool) -> dict[str, Any]:
    """One start, every node of the fleet in its turn."""
    health = gpu_record() if gpus else None
    nodes = [
        {
            "name": f"n{(job * 37 + n * 11) % FLEET:03d}",
            "index": n,
            "ranks": f"{n * TASKS}-{n * TASKS + TASKS - 1}",
            "phase": "ready",
            "detail": "",
            "address": f"10.0.0.{n}",
            "connected_s": 0.1,
            "reaches_master": True,
            "master_rtt_s": 0.0001,
            "clock_offset_s": 0.0,
            "tasks": [
                {"rank": n * TASKS + t, "arrived_s": 0.5 + (job * 7 + n + t) % 9 / 4}
                for t in range(TASKS)
            ],
            "health": health,
        }
        for n in range(NODES)
    ]
    count = {"nodes": NODES, "tasks": NODES * TASKS}
    return {
        "schema": "gangstart.start",
        "version": 1,
        "complete": True,
        "step": {
            "name": f"{job}.0",
            "job_id": job,
            "step_id": 0,
            "restart_count": 0,
            "cluster": "c",
            "user_id": 1000,
            "submit_host": "login",
        },
        "outcome": "released",
        "reason": "none",
        "message": ["gang-start: 64/64 tasks on 8/8 nodes in 1.4 s"],
        "decided_at": 1.79e9 + job,
        "elapsed_s": 3.0,
        "spec": "timeout=120",
        "expected": count,
        "arrived": count,
        "stale_arrivals": 0,
        "blamed_nodes": "",
        "master": None,
        "kept_from_user": [],
        "warnings": [],
        "versions": {"plugin": "0.1.0", "slurm": "25.11.0", "wire": 1},
        "nodes": nodes,
    }


def fill(archive: Path, reports: int, *, gpus: bool) -> int:
    """Write an archive; bytes of one report."""
    size = 0
    for job in range(1, reports + 1):
        path = archive / f"{job}.0" / "start.json"
        told = report(job, gpus=gpus)
        for node in told["nodes"]:
            (path.parent / node["name"] / "sys").mkdir(parents=True)
        size = path.write_text(json.dumps(told, separators=(",", ":")))
    return size


def measure(figures: Figures) -> None:
    """Measure reports without and with GPUs."""
    heading(f"history: {NODES} nodes of {TASKS} tasks in each start, {FLEET} nodes")
    for what, reports, gpus in (
        (f"history: {REPORTS} reports without GPUs", REPORTS, False),
        (f"history: {WITH_GPUS} reports with {GPUS} GPUs a node", WITH_GPUS, True),
    ):
        with tempfile.TemporaryDirectory() as folder:
            size = fill(Path(folder), reports, gpus=gpus)
            note(f"{size / 1000:.0f} kB each, page cache warm")
            done = [read(folder) for _ in range(RUNS)]
        figures.spread(what, [took for took, _, _ in done], "s")
        goal = None if gpus else SECONDS
        figures.spread(f"{what}, CPU", [used for _, used, _ in done], "s", goal)
        more = max(more for _, _, more in done)
        figures.add(f"{what}: memory", more, "MiB", MORE_MIB)


def read(folder: str) -> tuple[float, float, float]:
    """Seconds, of them on a CPU, and MiB beside the interpreter's."""
    done = subprocess.run(
        [sys.executable, "-c", READ, folder], capture_output=True, text=True, check=True
    )
    took, used, more, *_ = done.stdout.split()
    return float(took), float(used), float(more)
