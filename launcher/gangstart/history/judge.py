"""From what was counted to verdicts, the worst node first. Pure.

All p-values, of lateness and of refusals, of every node that is in enough jobs, are
corrected together: the chance that an answer accuses any node that is like the others
is at most ALPHA. That holds for the fleet as a whole, so asking for some nodes only
changes what is shown, not how they are judged.
"""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gangstart.check.result import VERDICTS
from gangstart.history import words
from gangstart.history.chance import holm, tail, wilson
from gangstart.history.model import (
    ALPHA,
    LEAST_JOBS,
    LEAST_SHARE,
    History,
    Lateness,
    Node,
    Reading,
    Refusals,
    Seen,
    Share,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from gangstart.history.counting import Window
    from gangstart.history.tally import Tally, Votes

S = TypeVar("S", bound=Share)


class Rates(NamedTuple):
    """What is usual in the whole fleet."""

    late: float
    refused: float
    late_s: float


class Judged(NamedTuple):
    """P-values of a node on one question; 1 if it is in too few jobs."""

    chance: float
    adjusted: float


def history(
    tallies: Mapping[str, Tally],
    nodes: Collection[str] | None,
    window: Window,
    reading: Reading,
    rates: Rates,
) -> History:
    """Judge every node, show those that were asked for."""
    judged, tests = corrected(tallies)
    wanted = tallies.keys() if nodes is None else set(nodes)
    made = [
        node_of(name, tallies[name], judged, rates) for name in tallies.keys() & wanted
    ]
    return History(
        since=window.since,
        until=window.until,
        reading=reading,
        tests=tests,
        late_rate=rates.late,
        refusal_rate=rates.refused,
        nodes=tuple(sorted(made, key=badness)),
        never_seen=tuple(sorted(wanted - tallies.keys())),
        late_s=rates.late_s,
        fleet=len(tallies),
    )


def corrected(tallies: Mapping[str, Tally]) -> tuple[dict[int, Judged], int]:
    """P-values by the identity of the votes they are of, and how many there are."""
    tested = [
        votes
        for tally in tallies.values()
        for votes in (tally.late, tally.refused)
        if len(votes.at) >= LEAST_JOBS
    ]
    raw = [chance_of(votes) for votes in tested]
    both = zip(tested, raw, holm(raw), strict=True)
    return {id(votes): Judged(p, adjusted) for votes, p, adjusted in both}, len(raw)


def chance_of(votes: Votes) -> float:
    """Chance of as many hits if the node were like the others of each of its jobs."""
    return tail([p for p in votes.chances if p > 0], len(votes.events))


def share(votes: Votes, judged: Mapping[int, Judged], usual: float) -> Share:
    """What one question's votes say."""
    jobs, hits = len(votes.at), len(votes.events)
    found = judged.get(id(votes), Judged(1.0, 1.0))
    low, high = wilson(hits, jobs)
    newest = max(votes.events, key=lambda one: one.at, default=None)
    made = Share(
        jobs=jobs,
        hits=hits,
        expected=sum(votes.chances),
        chance=found.chance,
        adjusted=found.adjusted,
        low=low,
        high=high,
        users=len({one.user for one in votes.events}),
        since=votes.since(),
        last_at=newest.at if newest else None,
        last_step=newest.step if newest else "",
        standing="",
    )
    return with_standing(made, standing(made, usual))


def with_standing(one: Share, found: str) -> Share:
    """Return the same with its standing."""
    return Share(**(vars(one) | {"standing": found}))


def standing(one: Share, usual: float) -> str:
    """Say whether a node is worse than the others, see Share.

    Beside the test: at least LEAST_SHARE of its jobs, and a Wilson interval that lies
    above what is usual in the fleet.
    """
    if one.jobs < LEAST_JOBS:
        return "unknown"
    if one.adjusted > ALPHA or one.hits < LEAST_SHARE * one.jobs or one.low <= usual:
        return "ordinary"
    return "mended" if is_mended(one) else "worse"


def is_mended(one: Share) -> bool:
    """Whether so many jobs without it are no luck, by what it was before."""
    before = one.hits / max(one.jobs - one.since, 1)
    return one.since >= LEAST_JOBS and (1 - before) ** one.since <= ALPHA


def node_of(
    name: str, tally: Tally, judged: Mapping[int, Judged], rates: Rates
) -> Node:
    """Judge one node."""
    late = lateness(tally.late, share(tally.late, judged, rates.late))
    refused = refusals(tally.refused, share(tally.refused, judged, rates.refused))
    findings = seen(tally)
    made = Node(
        name=name,
        verdict=verdict(late, refused, findings),
        jobs=tally.jobs,
        looks=len(tally.looks),
        last_at=tally.last_at,
        late=late,
        refused=refused,
        findings=findings,
        sentences=(),
        next="",
    )
    told = {"sentences": words.sentences(made, rates), "next": words.advice(made)}
    return Node(**(vars(made) | told))


def lateness(votes: Votes, found: Share) -> Lateness:
    """Judge lateness."""
    worst = max(votes.events, key=lambda one: one.value, default=None)
    return Lateness(
        **vars(found),
        median_s=median(votes.values) if votes.values else None,
        late_median_s=median(e.value for e in votes.events) if votes.events else None,
        worst_s=worst.value if worst else None,
        worst_step=worst.step if worst else "",
    )


def refusals(votes: Votes, found: Share) -> Refusals:
    """Judge refusals."""
    reasons = Counter(one.reason for one in votes.events)
    return Refusals(**vars(found), reasons=dict(sorted(reasons.items())))


def seen(tally: Tally) -> tuple[Seen, ...]:
    """Findings of a node, worst first: of the node, not mended, fail, often, new."""
    made = [
        Seen(
            check=check,
            verdict=one.verdict,
            jobs=one.jobs,
            first_at=one.first_at,
            last_at=one.last_at,
            last_job=one.last_job,
            since=sum(at > one.last_at for at in tally.looks),
            of_jobs=one.of_jobs,
            reason=one.reason,
        )
        for check, one in tally.found.items()
    ]
    return tuple(sorted(made, key=lambda s: (*weight(s), -s.jobs, -s.last_at, s.check)))


def weight(one: Seen) -> tuple[bool, bool, bool]:
    """Order of findings by what they mean for the node."""
    return one.of_jobs, one.mended, one.verdict != "fail"


def verdict(late: Share, refused: Share, findings: tuple[Seen, ...]) -> str:
    """Return the verdict on a node, by the worst of what is known.

    A finding that is a fact needs no test: fail if a check failed and has not been
    passed since, warn if it warned or is mended. What jobs leave behind is not the
    node's.
    """
    own = [one for one in findings if not one.of_jobs]
    standings = {late.standing, refused.standing}
    if "worse" in standings or any(s.verdict == "fail" and not s.mended for s in own):
        return "fail"
    if "mended" in standings or any(s.verdict == "fail" or not s.mended for s in own):
        return "warn"
    return "unknown" if standings == {"unknown"} else "ok"


def badness(node: Node) -> tuple[int, float, float, int, str]:
    """Order of nodes, worst first: verdict, then evidence, then name."""
    proven = [one.adjusted for one in (node.late, node.refused)]
    hits = node.late.hits + node.refused.hits
    facts = sum(one.jobs for one in node.findings if not one.of_jobs)
    order = -VERDICTS.index(node.verdict)
    return order, min(proven), -float(facts), -hits, node.name
