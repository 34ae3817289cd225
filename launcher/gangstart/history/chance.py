"""What chance would do: exact tail, correction for many tests, Wilson interval. Pure.

A node is compared with the others of each of its jobs. If it is like them, the chance
that it is one of the ``k`` nodes of ``n`` that something happened to is k/n in that
job, however late or unlucky the job as a whole was. Over jobs the count of hits then is
a sum of independent trials with different chances: a Poisson-binomial distribution,
whose upper tail is computed exactly.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Two-sided 95 %: the quantile of the normal distribution at 0.975.
Z95 = 1.959963984540054


def tail(chances: Sequence[float], hits: int) -> float:
    """Chance of at least `hits` successes among independent trials.

    Exact but for rounding: only sums of products of positive numbers, so that small
    values keep their digits. Time is len(chances) * hits.
    """
    if hits <= 0:
        return 1.0
    # reached[h]: exactly h so far; the last one: at least `hits`.
    reached = [1.0] + [0.0] * hits
    for done, chance in enumerate(chances):
        reached[hits] += reached[hits - 1] * chance
        for h in range(min(hits - 1, done + 1), 0, -1):
            reached[h] = reached[h] * (1.0 - chance) + reached[h - 1] * chance
        reached[0] *= 1.0 - chance
    return min(reached[hits], 1.0)


def holm(values: Sequence[float]) -> list[float]:
    """Adjust p-values so that the chance of even one false rejection stays.

    S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian
    Journal of Statistics 6 (1979): it holds whatever the tests' dependence, which
    nodes of the same jobs have.
    """
    adjusted = [1.0] * len(values)
    floor = 0.0
    order = sorted(range(len(values)), key=lambda index: values[index])
    for place, index in enumerate(order):
        floor = max(floor, min(1.0, (len(values) - place) * values[index]))
        adjusted[index] = floor
    return adjusted


def wilson(hits: int, of: int, z: float = Z95) -> tuple[float, float]:
    """Interval that holds the true share of `hits` in `of`; all of 0 to 1 without any.

    E. B. Wilson, "Probable inference, the law of succession, and statistical
    inference", JASA 22 (1927).
    """
    if of <= 0:
        return 0.0, 1.0
    share, square = hits / of, z * z / of
    middle = (share + square / 2) / (1 + square)
    half = z * sqrt((share * (1 - share) + square / 4) / of) / (1 + square)
    low = 0.0 if hits == 0 else max(0.0, middle - half)
    high = 1.0 if hits == of else min(1.0, middle + half)
    return low, high
