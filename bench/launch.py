"""What --gang-start adds to srun, on private clusters of this machine."""

from __future__ import annotations

import time
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from gangstart.cluster import Cluster, Spec, lifecycle

from bench.place import BUILT, ROOT, STAMP, command
from bench.table import Figures, fail, heading

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

WAYS = {"plain": (), "gang": ("--gang-start=60",)}
#: srun's own copies of the reports go here, where every node can see them.
STATE = BUILT / "state"
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "XDG_STATE_HOME": str(STATE)}
NANO = 1_000_000


class Shape(NamedTuple):
    """One shape of step and what is wanted of it."""

    nodes: int
    tasks_each: int
    repetitions: int
    goal_ms: float | None
    goal_ratio: float


SHAPES = (
    Shape(4, 4, 9, 10, 1.05),
    Shape(32, 2, 7, None, 1.10),
    Shape(128, 1, 5, None, 1.10),
)


@contextmanager
def memory(name: str) -> Iterator[Path]:
    """Give a folder in memory: on a real node /run is one too."""
    folder = BUILT / name
    folder.mkdir(parents=True, exist_ok=True)
    command(["mount", "-t", "tmpfs", "bench", folder], 30)
    try:
        yield folder
    finally:
        command(["umount", "-l", folder], 30)


@contextmanager
def cluster(nodes: int, name: str) -> Iterator[Cluster]:
    """Bring up a cluster with the plugin; it is always taken down."""
    plugin = lifecycle.built_plugin()
    if plugin is None:
        fail("the plugin is not built: make build")
    name = f"bench-{name}"
    with memory(name) as folder:
        place = str(folder / "cluster")
        spec = Spec(name=name, directory=place, nodes=nodes, plugin=plugin)
        made = Cluster.up(spec)
        try:
            yield made
        finally:
            made.down()


def srun_ms(on: Cluster, words: Sequence[str]) -> float:
    """Time of one srun that must succeed, from its start to its end."""
    script = (
        'a=$(date +%s%N); srun "$@" || exit; b=$(date +%s%N); echo $(((b - a) / 1000))'
    )
    done = on.run(["bash", "-c", script, "bash", *words], timeout=120, env=ENV)
    if done.returncode != 0:
        fail(f"srun {' '.join(words)} ended with {done.returncode}: {done.stderr}")
    return int(done.stdout.split()[-1]) / 1000


def launches(figures: Figures) -> None:
    """Measure `srun true` with and without the flag, alternating."""
    heading("srun true, with and without --gang-start")
    for shape in SHAPES:
        with cluster(shape.nodes, f"launch-{shape.nodes}") as on:
            one_shape(figures, on, shape)


def one_shape(figures: Figures, on: Cluster, shape: Shape) -> None:
    """Measure one shape of step."""
    size = ["-N", str(shape.nodes), f"--ntasks-per-node={shape.tasks_each}", "-O"]
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(shape.repetitions + 1):
        for way, flags in WAYS.items():
            taken = srun_ms(on, [*size, *flags, "true"])
            if number:  # the first ones fill caches
                times[way].append(taken)
    name = f"srun -N{shape.nodes} x {shape.tasks_each}"
    plain, gang = median(times["plain"]), median(times["gang"])
    figures.spread(f"{name}: plain", times["plain"], "ms")
    figures.spread(f"{name}: with --gang-start", times["gang"], "ms")
    figures.add(f"{name}: added", gang - plain, "ms", shape.goal_ms)
    figures.add(f"{name}: gang / plain", gang / plain, "x", shape.goal_ratio)


def skew(figures: Figures) -> None:
    """Measure the spread between the first and the last task's first instruction."""
    heading("first to last program start, 4 nodes x 8 tasks")
    with cluster(4, "skew") as on:
        spreads: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in range(9):
            for way, flags in WAYS.items():
                spreads[way].append(one_skew(on, flags))
    figures.spread("skew: plain", spreads["plain"], "ms")
    figures.spread("skew: with --gang-start", spreads["gang"], "ms")
    ratio = median(spreads["gang"]) / median(spreads["plain"])
    figures.add("skew: gang / plain", ratio, "x", 1)


def one_skew(on: Cluster, flags: Sequence[str]) -> float:
    """Run one step whose tasks leave their time."""
    path = on.directory / "shared-times"
    path.write_text("")
    words = ["-N4", "--ntasks-per-node=8", *flags, str(STAMP), str(path)]
    srun_ms(on, words)
    times = [int(line) for line in path.read_text().splitlines()]
    if len(times) != 4 * 8:
        fail(f"{len(times)} of 32 tasks left their time")
    return (max(times) - min(times)) / NANO


def starts(figures: Figures) -> None:
    """Measure how long the command takes to say something that needs no work."""
    heading("start of the gangstart command")
    python = str(ROOT / ".venv" / "bin" / "python")
    tool = str(ROOT / ".venv" / "bin" / "gangstart")
    commands = {
        "python -I -S -c pass": [python, "-I", "-S", "-c", "pass"],
        "python -c pass": [python, "-c", "pass"],
        "gangstart --version": [tool, "--version"],
        "gangstart report --help": [tool, "report", "--help"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(15):
        for name, argv in commands.items():
            begun = time.monotonic()
            command(argv, 30)
            times[name].append((time.monotonic() - begun) * 1000)
    for name, taken in times.items():
        figures.spread(name, taken, "ms")
    floor = median(times["python -I -S -c pass"])
    for name in ("gangstart --version", "gangstart report --help"):
        figures.add(f"{name} / bare Python", median(times[name]) / floor, "x", 1.6)
