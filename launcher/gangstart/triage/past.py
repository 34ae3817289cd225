"""Whether a node has failed other jobs too, beyond what chance would do."""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gangstart.triage.model import PastJob

#: By chance one node in a thousand would look like this.
CHANCE = 0.001
FAILED = {"FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT"}


class Offender(NamedTuple):
    """A node that is in more failed jobs than chance explains."""

    node: str
    failed: int  # failed jobs with it
    of: int  # all failed jobs
    good: int  # successful jobs with it
    chance: float


def tail(drawn: int, hits: int, marked: int, total: int) -> float:
    """Chance of at least ``hits`` marked among ``drawn`` out of ``total``."""
    ways = sum(
        comb(marked, k) * comb(total - marked, drawn - k)
        for k in range(hits, min(drawn, marked) + 1)
    )
    return ways / comb(total, drawn)


def offenders(jobs: Sequence[PastJob]) -> list[Offender]:
    """Nodes whose jobs fail too often, worst first.

    Fisher's exact test of "has this node" against "failed", times the number of nodes
    that were tried (Bonferroni).
    """
    failed = [job for job in jobs if job.state.split(" ")[0] in FAILED]
    nodes = {node for job in jobs for node in job.nodes}
    made = []
    for node in nodes:
        bad = sum(node in job.nodes for job in failed)
        used = sum(node in job.nodes for job in jobs)
        if bad <= 1:
            continue
        chance = tail(len(failed), bad, used, len(jobs)) * len(nodes)
        if chance < CHANCE:
            made.append(Offender(node, bad, len(failed), used - bad, chance))
    return sorted(made, key=lambda one: one.chance)
