"""Random series for tests of the library."""

from __future__ import annotations

import numpy as np

from headrace.library.series import Times, Values
from tests.support.drawing import SEED


def random() -> np.random.Generator:
    """Return a generator of the numbers of this run."""
    return np.random.default_rng(SEED)


def random_walk(generator: np.random.Generator, count: int) -> Values:
    """Return a random walk in steps of 0.1, with levels, slopes, and some points far away."""
    steps = generator.choice([0.0, 0.1], count) * generator.choice([-1, 1, 1], count)
    values: Values = np.round(steps.cumsum(), 1)
    values[generator.random(count) < 0.03] += 50
    return values


def random_times(generator: np.random.Generator, count: int) -> Times:
    """Return ascending times of about one a second."""
    times: Times = 1_600_000_000_000 + np.cumsum(generator.integers(700, 1300, count))
    return times
