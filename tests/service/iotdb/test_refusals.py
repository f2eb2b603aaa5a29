"""Statements that are parsed but not supported are refused with an error that says so."""

from __future__ import annotations

from typing import get_args

import pytest

import headrace
from headrace.errors import NotSupportedError
from headrace.model.tree_statements import TreeStatement
from headrace.service.planning.dispatch import PLANNERS, UNPLANNED

UNSUPPORTED = {
    "create cq c1 begin select count(s1) into root.plant.sums(s1) from root.plant.line1 group by(1m) end": "continuous queries",
    "drop cq c1": "continuous queries",
    "create device template t1 (s1 INT32)": "device templates",
    "alter device template t1 add (s2 INT32)": "device templates",
    "set device template t1 to root.plant": "device templates",
    "unset device template t1 from root.plant": "device templates",
    "create timeseries using device template on root.plant.line3": "device templates",
    "deactivate device template t1 from root.plant": "device templates",
    "drop device template t1": "device templates",
    "create function f as 'a.B'": "user-defined functions",
    "drop function f": "user-defined functions",
    "show functions": "SHOW FUNCTIONS",
    "show latest timeseries": "SHOW LATEST TIMESERIES",
    "show devices where time > 5": "a condition on time",
    "select count(s1) from root.plant.** group by tags(k)": "GROUP BY TAGS",
    "explain drop cq c1": "continuous queries",
}


@pytest.mark.parametrize(("statement", "subject"), UNSUPPORTED.items())
def test_a_statement_that_is_not_supported_is_refused(plant: headrace.Connection, statement: str, subject: str) -> None:
    with pytest.raises(NotSupportedError, match=f"{subject}.* not supported") as refused:
        plant.execute(statement)
    assert refused.value.hint


def test_every_kind_of_statement_is_planned_or_refused() -> None:
    assert set(get_args(TreeStatement)) - set(PLANNERS) == set(UNPLANNED)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO `root.plant`.`root.plant.line1` (time, s1) VALUES (1, 5)",
        "ALTER TABLE `root.plant`.devices ADD COLUMN extra INT",
    ],
)
def test_the_other_language_does_not_write_to_a_tree(plant: headrace.Connection, statement: str) -> None:
    home = plant.session.context.settings.home
    with headrace.connect(home) as tables, pytest.raises(NotSupportedError, match="which this dialect only reads"):
        tables.execute(statement)
    assert plant.execute("select s1 from root.plant.line1").fetchall() == []
