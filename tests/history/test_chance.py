"""The statistics, against exhaustive enumeration in exact fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb, prod

import pytest
from gangstart.history.chance import holm, tail, wilson
from seeded import seeded


def enumerated(chances: list[Fraction], hits: int) -> Fraction:
    """Add up every outcome of all trials that has enough hits."""
    return sum(
        (
            prod(
                (p if hit else 1 - p for p, hit in zip(chances, outcome, strict=True)),
                start=Fraction(1),
            )
            for outcome in product((0, 1), repeat=len(chances))
            if sum(outcome) >= hits
        ),
        start=Fraction(0),
    )


@pytest.mark.parametrize("seed", range(30))
def test_the_tail_is_that_of_all_outcomes_added_up(seed: int) -> None:
    drawn = seeded(seed)
    trials = drawn.randint(0, 9)
    nodes = [drawn.randint(1, 64) for _ in range(trials)]
    chances = [Fraction(drawn.randint(0, n), n) for n in nodes]
    for hits in range(trials + 2):
        exact = enumerated(chances, hits)
        assert tail([float(p) for p in chances], hits) == pytest.approx(
            float(exact), rel=1e-12, abs=0
        )


def test_with_equal_chances_it_is_the_binomial_tail_to_the_smallest_values() -> None:
    for trials, hits, nodes in ((500, 30, 64), (500, 200, 8), (100, 100, 16)):
        p = Fraction(1, nodes)
        exact = sum(
            comb(trials, k) * p**k * (1 - p) ** (trials - k)
            for k in range(hits, trials + 1)
        )
        assert tail([1 / nodes] * trials, hits) == pytest.approx(
            float(exact), rel=1e-9, abs=0
        )


def test_the_tail_is_never_more_than_certain() -> None:
    assert tail([], 0) == 1.0
    assert tail([], 1) == 0.0
    assert tail([1.0] * 400, 400) == 1.0
    assert tail([0.5] * 10, -3) == 1.0


def test_holm_is_what_its_paper_says() -> None:
    # By hand: sorted 0.01 0.02 0.03 0.04; times 4 3 2 1, never falling.
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_wilsons_interval_is_where_the_score_test_just_fails() -> None:
    z = 1.959963984540054
    for hits, of in ((1, 10), (7, 20), (50, 100), (3, 512), (19, 20)):
        share = hits / of
        for end in wilson(hits, of):
            # Both ends solve (share - p)^2 = z^2 p (1 - p) / n.
            assert (share - end) ** 2 == pytest.approx(z * z * end * (1 - end) / of)
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(0, 20)[0] == 0.0
    assert wilson(20, 20)[1] == 1.0
