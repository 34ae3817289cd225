"""The barrier of srun with thousands of simulated nodes, and a TCPStore beside it."""

from __future__ import annotations

import json
import resource
import sys
from importlib.util import find_spec
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from bench.place import AGENTS, ROOT, alone
from bench.table import Figures, heading, note

if TYPE_CHECKING:
    from collections.abc import Sequence

TASKS = 8
SPARE = 64
#: Kernel counters that tell of connections which had to be tried again.
LOSSES = ("ListenOverflows", "TCPSynRetrans")
NETSTAT = "/proc/net/netstat"
#: A step of the largest machines; the product has no tree, see `model`.
FAN_IN = 32
CLUSTER = 16384
THOUSAND = 1024
LEVELS = 3
RTT_MS = 0.05


class Size(NamedTuple):
    """One size of step: repetitions, goal in ms, TCPStore's clients beside it."""

    nodes: int
    repetitions: int
    goal_ms: float | None
    clients: tuple[int, ...]


SIZES = (
    Size(512, 7, None, (512 * TASKS,)),
    Size(THOUSAND, 7, 60, (THOUSAND,)),
    Size(4096, 5, 220, (4096,)),
    Size(CLUSTER, 5, 1000, ()),
)


def agents(mode: str, nodes: int) -> dict[str, float]:
    """One run of the C program; adds what the kernel lost."""
    script = '"$@" && cat ' + NETSTAT
    told = alone(
        ["sh", "-c", script, "sh", AGENTS, mode, str(nodes), str(TASKS)], 200
    ).splitlines()
    result: dict[str, float] = json.loads(told[0])
    counters = dict(zip(told[1].split(), told[2].split(), strict=True))
    return result | {"lost": sum(float(counters[name]) for name in LOSSES)}


def wall_ms(run: dict[str, float]) -> float:
    """First connect to the last node that was told."""
    return (run["last_us"] - run["first_us"]) / 1000


def store(clients: int) -> tuple[float, float]:
    """One run of TCPStore: milliseconds, and CPU time per client in microseconds."""
    script = ROOT / "bench" / "tcpstore.py"
    wall, cpu = alone([sys.executable, script, str(clients)], 200).split()
    return float(wall), float(cpu)


def may_open(nodes: int) -> bool:
    """Whether this many connections are allowed; a process may not raise its limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard >= nodes + SPARE:
        return True
    note(f"{nodes} nodes left out: RLIMIT_NOFILE is {hard} here")
    return False


def has_torch() -> bool:
    """Whether TCPStore can be compared with."""
    if find_spec("torch") is not None:
        return True
    note("TCPStore left out: torch is not installed here (make setup installs it)")
    return False


def measure(figures: Figures) -> None:
    """Every size, floor and TCPStore interleaved with the barrier."""
    heading("start barrier, simulated nodes with 8 tasks each, 2 client processes")
    note("PROBE is answered without the real node's connection to rank 0's node")
    with_store = has_torch()
    costs: dict[int, float] = {}
    for size in SIZES:
        if may_open(size.nodes):
            costs[size.nodes] = one_size(
                figures, size, size.clients if with_store else ()
            )
    if CLUSTER in costs:
        figures.add(
            f"CPU of srun per node at {CLUSTER} / at {THOUSAND}",
            costs[CLUSTER] / costs[THOUSAND],
            "x",
            1.5,
        )
        model(figures, costs[CLUSTER])
    lost_node(figures)


def one_size(figures: Figures, size: Size, clients: Sequence[int]) -> float:
    """Measure one number of nodes; returns the root's CPU time per node."""
    runs: list[dict[str, float]] = []
    floors: list[dict[str, float]] = []
    stores: list[tuple[float, float]] = []
    for _ in range(size.repetitions):
        floors.append(agents("floor", size.nodes))
        runs.append(agents("barrier", size.nodes))
        stores += [store(count) for count in clients]
    name = f"{size.nodes} nodes"
    walls = [wall_ms(run) for run in runs]
    floor = median(wall_ms(run) for run in floors)
    figures.add(f"{name}: floor, connect and accept only", floor, "ms")
    figures.spread(f"{name}: first connect to last release", walls, "ms", size.goal_ms)
    figures.add(f"{name}: wall time / floor", median(walls) / floor, "x", 3.5)
    figures.add(f"{name}: largest / median", max(walls) / median(walls), "x", 1.5)
    cost = median(run["root_cpu_us"] for run in runs) / size.nodes
    both = cost + median(run["client_cpu_us"] for run in runs) / size.nodes
    figures.add(f"{name}: CPU of srun per node", cost, "us")
    figures.add(f"{name}: CPU of all sides per node", both, "us", 80)
    peak = median(run["root_peak_kib"] for run in runs) / 1024
    figures.add(f"{name}: memory of srun's side, peak", peak, "MiB")
    lost = max(run["lost"] + run["broken"] for run in [*runs, *floors])
    figures.add(f"{name}: connections lost or tried again", lost, "", 0)
    if stores:
        told = f"TCPStore of {clients[0]}"
        times, cpus = zip(*stores, strict=True)
        figures.spread(f"{name}: {told} clients", times, "ms")
        figures.add(f"{name}: CPU of {told}, all sides per client", median(cpus), "us")
        ratio = median(walls) / median(times)
        figures.add(f"{name}: barrier / {told}", ratio, "x", 1 / 6)
    return cost


def model(figures: Figures, cost_us: float) -> None:
    """What a real network would make of it, each node being a machine of its own."""
    star = CLUSTER * cost_us / 1000 + 3 * RTT_MS
    figures.add(f"model: {CLUSTER} nodes at one srun, as built", star, "ms", 10)
    level = [agents("barrier", FAN_IN) for _ in range(7)]
    tree = LEVELS * median(run["root_cpu_us"] for run in level) / 1000
    tree += 2 * LEVELS * RTT_MS
    figures.add(f"model: the same with a tree of fan-in {FAN_IN}", tree, "ms")


def lost_node(figures: Figures) -> None:
    """A node hangs up while 1,023 wait: until all have been told."""
    runs = [agents("lost", THOUSAND) for _ in range(7)]
    decided = [(run["decided_us"] - run["left_us"]) / 1000 for run in runs]
    figures.spread("1024 nodes: a node hangs up, decided and sent", decided, "ms", 10)
