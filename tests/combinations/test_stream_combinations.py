"""Every few values of a stream's dimensions together: played to the end, and judged by VERIFY and by an evaluator of rows.

HEADRACE_COMBINATIONS is how many values are covered together; without it, all pairs that need no Spark are. With it,
HEADRACE_COMBINATIONS_PART=3/20 plays the third of 20 parts, and HEADRACE_COMBINATIONS_SEED=7 other combinations.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import headrace
from tests.combinations.covering import Combination, covering, refused
from tests.combinations.playing import Play
from tests.combinations.refusing import refusal
from tests.combinations.running import Home
from tests.combinations.stream_dimensions import DIMENSIONS, RULES, is_expressible, is_near, is_played

IS_CAMPAIGN = "HEADRACE_COMBINATIONS" in os.environ
STRENGTH = int(os.environ.get("HEADRACE_COMBINATIONS", "2"))
SEED = int(os.environ.get("HEADRACE_COMBINATIONS_SEED", "0"))
PART, PARTS = map(int, os.environ.get("HEADRACE_COMBINATIONS_PART", "1/1").split("/"))
PLAYS_PER_HOME = 15
ONE_DATABASE: Mapping[str, tuple[str, ...]] = {"precision": ("ms",), "zone": ("UTC",), "target": ("new",)}
"""Dimensions that no rule depends on."""


def is_chosen(combination: Combination) -> bool:
    return is_played(combination) and (IS_CAMPAIGN or is_near(combination))


def homes() -> dict[str, list[Play]]:
    """Return the plays of each home: those that share restarts, and with FORCE_WINDOW_CLOSE a clock."""
    plays = defaultdict[str, list[Play]](list)
    for number, combination in enumerate(covering(DIMENSIONS, STRENGTH, is_chosen, SEED)):
        if number % PARTS != PART - 1:
            continue
        clock = f" {combination['window']}" if combination["trigger"] == "force_window_close" else ""
        plays[f"{combination['stop']}{clock}"].append(Play(combination, f"d{number}"))
    return {
        f"{name} {first}": some[first : first + PLAYS_PER_HOME]
        for name, some in plays.items()
        for first in range(0, len(some), PLAYS_PER_HOME)
    }


HOMES: Mapping[str, Sequence[Play]] = homes()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", HOMES)
def test_a_stream_writes_what_the_evaluator_computes(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if IS_CAMPAIGN:
        request.getfixturevalue("spark")
    plays = list(HOMES[name])
    home = Home(tmp_path, plays, is_clocked=plays[0].combination["trigger"] == "force_window_close")
    try:
        home.play()
    finally:
        home.connection.close()
    assert not home.problems, "\n\n".join(home.problems.values())


def test_a_combination_that_a_rule_forbids_is_refused_with_its_reason(tmp_path: Path) -> None:
    databases: dict[tuple[str, ...], str] = {}
    problems = []
    with headrace.connect(tmp_path) as connection:
        for number, (combination, rule) in enumerate(refused({**DIMENSIONS, **ONE_DATABASE}, RULES, is_expressible)):
            play = Play(combination, f"d{number}")
            _, _, *tables = play.setup()
            if tuple(tables) not in databases:
                databases[tuple(tables)] = play.name
                for sql in play.setup():
                    connection.execute(sql)
            connection.execute(f"use {databases[tuple(tables)]}")
            problems.append(refusal(connection, play, rule))
    assert not any(problems), "\n".join(filter(None, problems))
