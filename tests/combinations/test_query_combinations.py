"""Every few values of a continuous query's dimensions together: played to the end, and judged by VERIFY and an evaluator of rows.

HEADRACE_COMBINATIONS is how many values are covered together. Without it, these are pairs of what is evaluated without Spark.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import headrace
from tests.combinations.covering import Combination, covering, refused
from tests.combinations.query_dimensions import DIMENSIONS, NEAR, RULES, is_expressible, is_near, is_played
from tests.combinations.query_playing import SCALES, Play
from tests.combinations.query_running import Home
from tests.combinations.refusing import refusal

STRENGTH = int(os.environ.get("HEADRACE_COMBINATIONS", "0"))
ON_SPARK = bool(STRENGTH)
PLAYS_PER_HOME = 100


pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")] if ON_SPARK else []


def homes() -> dict[str, list[Play]]:
    """Return the plays of each home: those that share a clock, a zone and restarts."""
    plays = defaultdict[str, list[Play]](list)
    dimensions = DIMENSIONS if ON_SPARK else {**DIMENSIONS, **NEAR}
    for number, combination in enumerate(covering(dimensions, STRENGTH or 2, is_chosen)):
        plays[f"{combination['scale']} {combination['zone']} {combination['stop']}"].append(Play(combination, f"{number}"))
    return {
        f"{name} {first}": some[first : first + PLAYS_PER_HOME]
        for name, some in plays.items()
        for first in range(0, len(some), PLAYS_PER_HOME)
    }


def is_chosen(combination: Combination) -> bool:
    return is_played(combination) and (ON_SPARK or is_near(combination))


HOMES: Mapping[str, Sequence[Play]] = homes()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", HOMES)
def test_a_continuous_query_writes_what_the_evaluator_computes(name: str, tmp_path: Path) -> None:
    home = Home(tmp_path, list(HOMES[name]))
    try:
        home.play()
    finally:
        home.connection.close()
    assert not home.problems, "\n\n".join(home.problems.values())


def test_a_combination_that_a_rule_forbids_is_refused_with_its_reason(tmp_path: Path) -> None:
    problems = []
    types: set[str] = set()
    with headrace.connect(tmp_path, dialect="iotdb", clock=headrace.ManualClock(SCALES["seconds"].base)) as connection:
        for combination, rule in refused(DIMENSIONS, RULES, is_expressible):
            play = Play(combination, combination["type"].lower())
            if play.name not in types:
                types.add(play.name)
                for sql in play.setup():
                    connection.execute(sql)
            problems.append(refusal(connection, play, rule))
    assert not any(problems), "\n".join(filter(None, problems))
