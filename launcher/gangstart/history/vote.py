"""What one job says of its nodes: one vote on lateness and one on refusals. Pure.

Steps and requeues of a job share nodes, data and program, so they are no independent
evidence: the job votes by one start for each question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gangstart.history.start import Start

#: Refusals that can be because of a node: docs/report.schema.json. The others are
#: because of options, of the program or of somebody's environment.
OF_NODES = frozenset(
    {
        "timeout",
        "task_ended",
        "launch_failed",
        "node_lost",
        "master_unreachable",
        "health",
        "ended_by_slurm",
    }
)


class LateVote(NamedTuple):
    """How long after the median of the others each node was complete."""

    start: Start
    by_s: Mapping[str, float]


class RefusalVote(NamedTuple):
    """Which nodes a refusal was because of; nobody if the job had none such."""

    start: Start
    blamed: frozenset[str]
    among: frozenset[str]
    nodes: int


def late_vote(starts: Sequence[Start]) -> LateVote | None:
    """Return the job's vote on lateness: its first start on the most nodes.

    Only of released starts of two nodes or more whose nodes are all known.
    """
    fit = [
        one
        for one in starts
        if one.outcome == "released" and one.nodes > 1 and one.whole and arrived(one)
    ]
    if not fit:
        return None
    chosen = min(fit, key=lambda one: (-one.nodes, one.at))
    came = {n: r.complete_s for n, r in chosen.rows.items() if r.complete_s is not None}
    return LateVote(chosen, behind(came))


def arrived(start: Start) -> bool:
    """Whether every node's arrival is known."""
    return all(row.complete_s is not None for row in start.rows.values())


def behind(came: Mapping[str, float]) -> dict[str, float]:
    """Seconds of each after the median of the others, the lower one of two."""
    order = sorted(came, key=lambda name: (came[name], name))
    middle = (len(order) - 2) // 2  # of the others, counted from 0
    return {
        name: came[name] - came[order[middle if place > middle else middle + 1]]
        for place, name in enumerate(order)
    }


def refusal_vote(starts: Sequence[Start]) -> RefusalVote | None:
    """Return the job's vote on refusals: the first because of nodes, else none was."""
    for one in sorted(starts, key=lambda one: one.at):
        if is_of_nodes(one):
            return RefusalVote(one, one.blamed, frozenset(one.rows), one.nodes)
    good = [one for one in starts if one.outcome == "released" and one.nodes > 1]
    if not good:
        return None
    chosen = min(good, key=lambda one: (-one.nodes, one.at))
    return RefusalVote(chosen, frozenset(), frozenset(chosen.rows), chosen.nodes)


def is_of_nodes(start: Start) -> bool:
    """Whether a refusal was because of the nodes it names, and of them alone.

    Not if most nodes are named, nor if fewer than half of the others were ready: then
    the job itself, srun's host or something they all share can be the cause, and who
    is named is whoever met it first. When Slurm ends a launch because of one node, the
    others that were on their way are named with it.
    """
    if start.outcome != "refused" or start.reason not in OF_NODES or not start.blamed:
        return False
    if start.reason == "ended_by_slurm" and len(start.blamed) > 1:
        return False
    others = start.nodes - len(start.blamed)
    ready = sum(
        row.ready for name, row in start.rows.items() if name not in start.blamed
    )
    return len(start.blamed) <= others and 2 * ready >= others
