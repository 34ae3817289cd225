"""Sentences about a node: what it is accused of, with the evidence. Pure."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from gangstart.check.catalogue import everything

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gangstart.history.judge import Rates
    from gangstart.history.model import Lateness, Node, Refusals, Seen, Share

LEAST_SHOWN = 1e-12  # smaller is only said to be smaller
REASONS = {
    "timeout": "not ready in time",
    "task_ended": "a task ended before the start",
    "launch_failed": "it could not launch its tasks",
    "node_lost": "its connection broke",
    "master_unreachable": "it did not reach rank 0's node",
    "health": "GPUs failed a check",
    "ended_by_slurm": "Slurm ended the launch",
}


def sentences(node: Node, rates: Rates) -> tuple[str, ...]:
    """What is held against a node, one sentence each."""
    return (
        *late_sentence(node.late, rates),
        *refused_sentence(node.refused, rates),
        *(finding_sentence(one, node) for one in node.findings if is_told(one)),
    )


def is_told(one: Seen) -> bool:
    """Whether a finding is worth a sentence."""
    return not one.of_jobs and (one.verdict == "fail" or not one.mended)


def late_sentence(late: Lateness, rates: Rates) -> Iterator[str]:
    """What is held against it for lateness."""
    if late.standing not in {"worse", "mended"}:
        return
    yield (
        f"late in {late.hits} of {late.jobs} jobs, by {late.late_median_s or 0:.1f} s "
        f"in the median (late is {rates.late_s:g} s after the others' median; chance "
        f"alone would give {late.expected:.1f}, {proof(late)}); worst "
        f"{late.worst_s or 0:.1f} s in {late.worst_step}, last {day(late.last_at)}"
        f"{users(late)}{mended(late)}"
    )


def refused_sentence(refused: Refusals, rates: Rates) -> Iterator[str]:
    """What is held against it for refusals."""
    if refused.standing not in {"worse", "mended"}:
        return
    why = ", ".join(
        f"{REASONS.get(reason, reason)} {count} times"
        if count > 1
        else REASONS.get(reason, reason)
        for reason, count in refused.reasons.items()
    )
    yield (
        f"cause of a refused start in {refused.hits} of {refused.jobs} jobs: {why} "
        f"({refused.low:.0%} to {refused.high:.0%}, the fleet has "
        f"{rates.refused:.1%}; {proof(refused)}); last {day(refused.last_at)}, "
        f"{refused.last_step}{users(refused)}{mended(refused)}"
    )


def finding_sentence(one: Seen, node: Node) -> str:
    """What was found on it."""
    since = f", not in the {one.since} looks since" if one.since else ""
    return (
        f"{one.verdict}: {one.check} in {one.jobs} of {node.looks} jobs that looked, "
        f"last {day(one.last_at)}, job {one.last_job}{since}: {one.reason}"
    )


def proof(one: Share) -> str:
    """P-value, corrected."""
    if one.adjusted < LEAST_SHOWN:
        return f"p < {LEAST_SHOWN:.0e}, corrected"
    return f"p = {one.adjusted:.2g}, corrected"


def users(one: Share) -> str:
    """Say when a single user's jobs are all the evidence."""
    return "; all of them one user's jobs" if one.users == 1 else ""


def mended(one: Share) -> str:
    """Say when it seems to be over."""
    if not one.since:
        return ""
    newest = "job" if one.since == 1 else f"{one.since} jobs"
    said = "mended: " if one.standing == "mended" else ""
    return f"; {said}not in its newest {newest}"


def advice(node: Node) -> str:
    """What to type next about a node that is accused now, most telling first; "" else.

    To look comes before to act: the evidence is reports of users' starts.
    """
    if node.verdict != "fail":
        return ""
    steps = [
        step
        for share, step in (
            (node.refused, node.refused.last_step),
            (node.late, node.late.worst_step),
        )
        if share.standing == "worse"
    ]
    looks = [f"gangstart check --explain {check}" for check in failed_checks(node)]
    return " · ".join(
        [
            *looks[:1],
            *(f"gangstart report {step} --all" for step in dict.fromkeys(steps)),
            f"scontrol show node {node.name}",
            f"sbatch --exclude={node.name} …",
        ]
    )


def failed_checks(node: Node) -> list[str]:
    """Ids of checks that failed last, of those that can be explained."""
    explained = {check.id for check in everything()}
    found = (
        one.check.partition(" ")[0]
        for one in node.findings
        if one.verdict == "fail" and not (one.of_jobs or one.mended)
    )
    return [check for check in found if check in explained]


def day(at: float | None) -> str:
    """Return a moment of this machine's clock, to the minute."""
    if at is None:
        return "-"
    return f"{datetime.fromtimestamp(at, timezone.utc).astimezone():%Y-%m-%d %H:%M}"
