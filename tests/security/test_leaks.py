"""Whatever a user tries, all that is observed follows from what that user may see: two homes that differ in the rest answer alike.

HEADRACE_LEAKS is the number of random users of each dialect, HEADRACE_DRAW_SEED the first seed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.security.worlds import leaks

USERS = int(os.environ.get("HEADRACE_LEAKS", "3"))
FIRST_SEED = int(os.environ.get("HEADRACE_DRAW_SEED", "0"))
STATEMENTS = 80

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark"), pytest.mark.timeout(600)]


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + USERS))
@pytest.mark.parametrize("dialect", ["tdengine", "iotdb"])
def test_nothing_that_is_hidden_makes_a_difference(dialect: str, seed: int, tmp_path: Path) -> None:
    found = list(leaks(tmp_path, dialect, seed, STATEMENTS))
    assert not found, "\n\n".join(found)
