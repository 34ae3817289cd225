"""What series tell about a span of time: growth of counters, levels of gauges. Pure."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from gangstart.triage.model import Event, Place
from gangstart.triage.source.prometheus import increase

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gangstart.triage.cause import Facts
    from gangstart.triage.model import Series

EVER = float("inf")


class Grown(NamedTuple):
    """A counter that grew during the job; its event is when it last had not."""

    series: Series
    by: float
    seconds: float  # over which its samples were taken

    @property
    def event(self) -> Event:
        """What is cited: the selector, and by how much it grew until when."""
        first, last = self.series.samples[0], self.series.samples[-1]
        still = [a for a, b in pairwise(self.series.samples) if a.value != b.value]
        name = self.series.query or self.series.quantity
        text = f"{name} went from {first.value:.0f} to {last.value:.0f}"
        if "{" not in name:
            text += f" on {where(self.series)}"
        return Event(
            "series",
            text,
            Place("prometheus"),
            time=still[0].time,
            node=self.series.node,
        )


def where(series: Series) -> str:
    """The thing a series is about."""
    return f"{series.device} of {series.node}" if series.device else series.node


def span(facts: Facts) -> tuple[float, float]:
    """From the start of the last run to its end, as far as they are known."""
    attempt = facts.attempt
    begin = attempt.start if attempt and attempt.start is not None else -EVER
    end = attempt.end if attempt and attempt.end is not None else EVER
    return begin, end


def clipped(series: Series, begin: float, end: float) -> Series:
    """The samples of a span, and the last one before it: what a counter was then."""
    kept = [s for s in series.samples if begin <= s.time <= end]
    before = [s for s in series.samples if s.time < begin][-1:]
    return replace(series, samples=(*before, *kept))


def grown(facts: Facts, *quantities: str, least: float = 1.0) -> list[Grown]:
    """Counters of the job's nodes that grew by at least ``least`` during its run."""
    begin, end = span(facts)
    made = []
    for series in facts.trace.series:
        if series.quantity not in quantities or not mine(facts, series):
            continue
        part = clipped(series, begin, end + SCRAPE_S)
        by = increase(part)
        if by >= least:
            took = part.samples[-1].time - part.samples[0].time
            made.append(Grown(part, by, took))
    return made


#: A counter's last growth may be scraped only after the end: Prometheus' default.
SCRAPE_S = 60.0


def mine(facts: Facts, series: Series) -> bool:
    """Whether it is about a node of the job."""
    return not facts.nodes or series.node in facts.nodes


def told(facts: Facts, quantity: str, node: str | None = None) -> list[Series]:
    """Series of a quantity on a node of the job that have samples."""
    return [
        one
        for one in facts.trace.series
        if one.quantity == quantity
        and one.samples
        and mine(facts, one)
        and node in {None, one.node}
    ]


def level(series: Iterable[Series], begin: float, end: float) -> dict[str, float]:
    """Median of each device over a span, by node and device; only with two samples."""
    made = {}
    for one in series:
        inside = [s.value for s in one.samples if begin <= s.time <= end]
        if len(inside) > 1:
            made[key(one)] = median(inside)
    return made


def key(series: Series) -> str:
    """Node and device as one key."""
    return f"{series.node}\0{series.device}"
