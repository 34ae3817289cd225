"""Random but reproducible inputs for tests."""

from __future__ import annotations

import random


def seeded(seed: int) -> random.Random:
    """A generator that gives the same inputs at every run."""
    return random.Random(seed)  # noqa: S311 - test inputs, not secrets
