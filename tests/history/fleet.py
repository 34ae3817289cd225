"""A simulated fleet, whose truth is known: jobs on random nodes, with random delays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gangstart.history import judge
from gangstart.history.assemble import rates
from gangstart.history.counting import Sums, Window, count
from gangstart.history.model import LATE_S, History, Reading
from gangstart.history.source import JobFiles
from gangstart.history.start import Row, Start
from seeded import seeded

if TYPE_CHECKING:
    from random import Random

ALWAYS = Window(None, None)


@dataclass
class Fleet:
    """Nodes, how jobs are, and what is the matter with some nodes."""

    seed: int
    nodes: int = 200
    sizes: tuple[int, ...] = (2, 4, 8, 16)
    refused: float = 0.03  # of jobs, because of a random node
    late: dict[str, float] = field(default_factory=dict)  # node -> share of its jobs
    failing: dict[str, float] = field(default_factory=dict)
    random: Random = field(init=False)
    sums: Sums = field(default_factory=Sums)
    job: int = 0

    def __post_init__(self) -> None:
        self.random = seeded(self.seed)
        self.names = [f"n{index:03d}" for index in range(self.nodes)]

    def run(self, jobs: int, among: str = "") -> None:
        """Run some jobs, all of them with this node if one is named."""
        for _ in range(jobs):
            self.job += 1
            others = [name for name in self.names if name != among]
            size = self.random.choice(self.sizes)
            nodes = self.random.sample(others, size - bool(among))
            self.count([*nodes, among] if among else nodes)

    def count(self, nodes: list[str]) -> None:
        """Count a job as if its report had been read."""
        blamed = self.culprit(nodes)
        spread = self.spread()
        rows = {name: self.row(name, spread) for name in nodes}
        for name in blamed:
            rows[name] = Row(ready=False, complete_s=None)
        start = Start(
            job=self.job,
            step=f"{self.job}.0",
            attempt=0,
            at=1000.0 + self.job,
            cluster="c",
            user=self.random.randint(1000, 1005),
            outcome="refused" if blamed else "released",
            reason="timeout" if blamed else "none",
            nodes=len(nodes),
            blamed=frozenset(blamed),
            rows=rows,
        )
        count(self.sums, JobFiles(starts=[start]), ALWAYS, LATE_S)

    def spread(self) -> float:
        """Mean delay of a job's nodes: some jobs load their programs slowly."""
        return self.random.choice((0.05, 0.2, 0.5, 2.0))

    def row(self, name: str, spread: float) -> Row:
        """When a node is complete."""
        delay = self.random.expovariate(1 / spread)
        if self.random.random() < self.late.get(name, 0.0):
            delay += 5.0
        return Row(ready=True, complete_s=1.0 + delay)

    def culprit(self, nodes: list[str]) -> list[str]:
        """Who keeps a job from starting."""
        for name in nodes:
            if self.random.random() < self.failing.get(name, 0.0):
                return [name]
        unlucky = self.random.random() < self.refused
        return [self.random.choice(nodes)] if unlucky else []

    def history(self) -> History:
        """What is said of it."""
        reading = Reading("a simulation", "c")
        return judge.history(
            self.sums.tallies, None, ALWAYS, reading, rates(self.sums, LATE_S)
        )

    def accused(self) -> list[str]:
        """Who is called worse than the others, mended or not."""
        return [
            node.name
            for node in self.history().nodes
            if {node.late.standing, node.refused.standing} & {"worse", "mended"}
        ]
