"""Statements that are parsed but not supported are refused with an error that says so."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

import headrace
from headrace.errors import NotSupportedError
from headrace.model.tree_statements import TreeStatement
from headrace.service.planning.dispatch import PLANNERS, UNPLANNED

UNSUPPORTED = {
    "create function f as 'a.B'": "user-defined functions",
    "drop function f": "user-defined functions",
}


@pytest.mark.parametrize(("statement", "subject"), UNSUPPORTED.items())
def test_a_statement_that_is_not_supported_is_refused(plant: headrace.Connection, statement: str, subject: str) -> None:
    with pytest.raises(NotSupportedError, match=f"{subject}.* not supported") as refused:
        plant.execute(statement)
    assert refused.value.hint


def test_every_kind_of_statement_is_planned_or_refused() -> None:
    assert set(get_args(TreeStatement)) - set(PLANNERS) == set(UNPLANNED)


def test_files_are_not_loaded_into_a_tree(plant: headrace.Connection, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("time,device,s1\n1,root.plant.line1,5\n")
    with pytest.raises(NotSupportedError, match="loading files into a tree"):
        plant.load(file, "`root.plant`.devices")


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
