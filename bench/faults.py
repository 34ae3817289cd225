"""From a fault to the line that names it, on a private cluster and in the core."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any

from gangstart._core import ffi, lib
from gangstart.cluster import process

from bench.launch import ENV, STATE, cluster
from bench.table import Figures, fail, heading

if TYPE_CHECKING:
    from collections.abc import Callable

    from gangstart.cluster import Cluster

REPETITIONS = 5
WAIT_SECONDS = 30.0
HELD = "n3"  # its slurmd is stopped, so that the tasks of n1 and n2 wait
WAITING = 8
TASK_NAME = "gang-wait"
REFUSED = "refused after"
T_SECONDS = 2
STEP_NODES, STEP_TASKS, MISSING = 16384, 8, 1000
SECOND = 1_000_000
TEXTS = (
    "master_addr",
    "version",
    "slurm_version",
    "cluster",
    "submit_host",
    "program",
)


class Step:
    """A srun that waits, and when each line of its standard error came."""

    def __init__(self, on: Cluster, seconds: int) -> None:
        """Start it on n1, n2 and n3."""
        words = ["-w", "n[1-3]", "-N3", "--ntasks-per-node=4"]
        self.on = on
        self.popen = on.popen(
            ["srun", *words, f"--gang-start={seconds}", "true"],
            env=ENV,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self.lines: list[tuple[float, str]] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.popen.stderr is not None  # noqa: S101 - a pipe was asked for
        for line in self.popen.stderr:
            self.lines.append((time.monotonic(), line))

    def waiting(self) -> list[tuple[int, str]]:
        """The tasks at the barrier and their nodes."""
        found = self.on.pids().items()
        return [(p, n) for p, n in found if process.command_name(p) == TASK_NAME]

    def when(self, part: str) -> float:
        """Wait for a line with this part; when it came."""
        until(lambda: any(part in line for _, line in self.lines), f"{part!r}")
        return next(when for when, line in self.lines if part in line)

    def end(self) -> None:
        """Wait for its end."""
        try:
            self.popen.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        self._reader.join(WAIT_SECONDS)


def until(ready: Callable[[], bool], what: str) -> None:
    """Wait for something with a deadline."""
    end = time.monotonic() + WAIT_SECONDS
    while not ready():
        if time.monotonic() > end:
            fail(f"waited {WAIT_SECONDS:.0f} s in vain for {what}")
        time.sleep(0.005)


def with_step(on: Cluster, seconds: int, measure_one: Callable[[Step], float]) -> float:
    """Hold n3, start a step, measure, and leave the cluster as it was."""
    until(lambda: set(on.node_states().values()) == {"idle"}, "idle nodes")
    on.signal_slurmd(HELD, "stop")
    step = Step(on, seconds)
    try:
        until(lambda: len(step.waiting()) == WAITING, f"{WAITING} waiting tasks")
        return measure_one(step)
    finally:
        on.signal_slurmd(HELD, "cont")
        step.end()


def kill_ms(step: Step) -> float:
    """SIGKILL one waiting task; until srun names it."""
    victim = min(step.waiting())[0]
    begun = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    return (step.when(REFUSED) - begun) * 1000


def verdict_ms(step: Step) -> float:
    """Nobody comes any more; how late the verdict is."""
    told = time.time() - time.monotonic() + step.when(REFUSED)
    until(lambda: any(STATE.rglob("*.json")), "the report of the refusal")
    path = max(STATE.rglob("*.json"), key=lambda one: one.stat().st_mtime_ns)
    report = json.loads(path.read_text())
    path.unlink()
    first = min(n["connected_s"] for n in report["nodes"] if n["connected_s"])
    begun = report["decided_at"] - report["elapsed_s"] + first
    late: float = told - begun - T_SECONDS
    return late * 1000


def link_s(step: Step) -> float:
    """Unplug a node whose tasks wait; until srun names it."""
    step.on.set_cable("n2", up=False)
    begun = time.monotonic()
    try:
        return step.when(REFUSED) - begun
    finally:
        step.on.set_cable("n2", up=True)


def on_cluster(figures: Figures) -> None:
    """Measure the faults that need real tasks."""
    heading(f"faults, {WAITING} tasks waiting on 2 of 3 nodes")
    with cluster(4, "faults") as on:
        kills = [with_step(on, 60, kill_ms) for _ in range(REPETITIONS)]
        figures.spread("a waiting task is killed: named by srun", kills, "ms", 50)
        late = [with_step(on, T_SECONDS, verdict_ms) for _ in range(REPETITIONS)]
        figures.spread("a node never came: verdict after T", late, "ms", 100)
        cut = [with_step(on, 60, link_s) for _ in range(REPETITIONS)]
        figures.spread("a node's cable is cut: named by srun", cut, "s", 4)


def large_gang(keep: list[Any]) -> Any:  # noqa: ANN401 - C data
    """A step of 131,072 tasks of which 1,000 nodes, here and there, never came."""
    gang = ffi.gc(
        lib.gs_gang_create(STEP_NODES, STEP_NODES * STEP_TASKS, SECOND),
        lib.gs_gang_destroy,
    )
    keep.append(gang)
    missing = {i * STEP_NODES // MISSING for i in range(MISSING)}
    hello = ffi.new("struct gs_hello *")
    hello.node_count, hello.task_count = STEP_NODES, STEP_NODES * STEP_TASKS
    hello.rank_count = STEP_TASKS
    for node in range(STEP_NODES):
        ranks = range(node * STEP_TASKS, (node + 1) * STEP_TASKS)
        name = f"node{node:05d}".encode()
        lib.gs_gang_expect(gang, node, name, list(ranks), STEP_TASKS)
        if node in missing:
            continue
        raw = ffi.new("uint8_t[]", b"".join(rank.to_bytes(4, "big") for rank in ranks))
        hello.node_index, hello.ranks = node, raw
        lib.gs_gang_hello(gang, hello, 0, ffi.NULL)
        for rank in ranks:
            lib.gs_gang_arrive(gang, node, rank, 0, 0)
    if int(lib.gs_gang_tick(gang, 2 * SECOND)) != lib.GS_REFUSED:
        fail("the large step was not refused")
    return gang


def story(figures: Figures) -> None:
    """Measure how long the text of a large refusal takes."""
    heading("text of a refusal: 131,072 tasks, 1,000 nodes missing")
    keep: list[Any] = []
    spec, told = ffi.new("struct gs_spec *"), ffi.new("struct gs_story *")
    lib.gs_spec_init(spec)
    empty = ffi.new("char[]", b"")
    told.gang, told.spec = large_gang(keep), spec
    for name in TEXTS:
        setattr(told, name, empty)
    times, size = [], 0
    for _ in range(15):
        begun = time.perf_counter()
        text = lib.gs_story_refusal(told)
        times.append((time.perf_counter() - begun) * 1000)
        size = len(ffi.string(text))
        lib.gs_text_free(text)
    figures.spread(f"refusal of {size} bytes", times, "ms", 50)
