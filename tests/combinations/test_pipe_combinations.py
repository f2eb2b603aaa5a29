"""Every few values of a pipe's dimensions together: played to the end, and judged by an evaluator of rows.

HEADRACE_COMBINATIONS is how many values are covered together: all pairs, unless it says otherwise.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

import headrace
from headrace.code.hosts import current_hosts
from headrace.errors import Error
from tests.combinations.covering import Rule, covering, refused
from tests.combinations.pipe_dimensions import DIMENSIONS, RULES, is_expressible, is_played
from tests.combinations.pipe_playing import CODE, Play
from tests.combinations.pipe_running import Home
from tests.pipes.recording import recording_sinks

STRENGTH = int(os.environ.get("HEADRACE_COMBINATIONS", "2"))
PLAYS_PER_HOME = 60


def homes() -> dict[str, list[Play]]:
    """Return the plays of each home: those that share restarts."""
    plays = defaultdict[str, list[Play]](list)
    for number, combination in enumerate(covering(DIMENSIONS, STRENGTH, is_played)):
        plays[combination["stop"]].append(Play(combination, f"{number}"))
    return {
        f"{name} {first}": some[first : first + PLAYS_PER_HOME]
        for name, some in plays.items()
        for first in range(0, len(some), PLAYS_PER_HOME)
    }


HOMES: Mapping[str, Sequence[Play]] = homes()


@pytest.fixture(autouse=True)
def plugins() -> Iterator[None]:
    """Provide the sink that records, and end the processes of plugins."""
    with recording_sinks():
        yield
    current_hosts().close()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", HOMES)
def test_a_pipe_delivers_what_the_evaluator_computes(name: str, tmp_path: Path) -> None:
    home = Home(tmp_path, list(HOMES[name]))
    try:
        home.play()
    finally:
        home.connection.close()
    assert not home.problems, "\n\n".join(home.problems.values())


def test_a_combination_that_a_rule_forbids_is_refused_with_its_reason(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "ext" / "pipe"
    folder.mkdir(parents=True)
    (folder / "doubling.py").write_text(CODE)
    with headrace.connect(tmp_path / "home", dialect="iotdb") as connection:
        connection.execute("create pipeplugin doubled as 'doubling.Doubled'")
        problems = [
            refusal(connection, Play(combination, "0", tmp_path), rule)
            for combination, rule in refused(DIMENSIONS, RULES, is_expressible)
        ]
    assert not any(problems), "\n".join(filter(None, problems))


def refusal(connection: headrace.Connection, play: Play, rule: Rule) -> str | None:
    """Return what is wrong about the answer to a statement that a rule forbids, or None."""
    try:
        connection.execute(f"explain {play.statement()}")
    except Error as error:
        return None if rule.message in f"{error}" else f"{error}, not {rule.message}: {play.statement()}"
    return f"accepted, though {rule.message}: {play.statement()}"
