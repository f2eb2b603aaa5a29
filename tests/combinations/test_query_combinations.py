"""Every few values of a continuous query's dimensions together: played to the end, and judged by VERIFY and an evaluator of rows.

HEADRACE_COMBINATIONS is how many values are covered together; without it, all pairs are. HEADRACE_COMBINATIONS_PART=3/20 plays the
third of 20 parts, and HEADRACE_COMBINATIONS_SEED=7 other combinations. None of them needs Spark.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

import headrace
from headrace.errors import OperationalError
from headrace.storage.spark import session
from tests.combinations.covering import covering, refused
from tests.combinations.query_dimensions import DIMENSIONS, RULES, is_expressible, is_played
from tests.combinations.query_playing import SCALES, Play
from tests.combinations.query_running import Home
from tests.combinations.refusing import refusal

STRENGTH = int(os.environ.get("HEADRACE_COMBINATIONS", "2"))
SEED = int(os.environ.get("HEADRACE_COMBINATIONS_SEED", "0"))
PART, PARTS = map(int, os.environ.get("HEADRACE_COMBINATIONS_PART", "1/1").split("/"))
PLAYS_PER_HOME = 100


def homes() -> dict[str, list[Play]]:
    """Return the plays of each home: those that share a clock, a zone and restarts."""
    plays = defaultdict[str, list[Play]](list)
    for number, combination in enumerate(covering(DIMENSIONS, STRENGTH, is_played, SEED)):
        if number % PARTS != PART - 1:
            continue
        plays[f"{combination['scale']} {combination['zone']} {combination['stop']}"].append(Play(combination, f"{number}"))
    return {
        f"{name} {first}": some[first : first + PLAYS_PER_HOME]
        for name, some in plays.items()
        for first in range(0, len(some), PLAYS_PER_HOME)
    }


HOMES: Mapping[str, Sequence[Play]] = homes()


def refuse_spark(*_: object, **__: object) -> NoReturn:
    raise OperationalError("a query needs Spark")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", HOMES)
def test_a_continuous_query_writes_what_the_evaluator_computes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "start_session", refuse_spark)
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
