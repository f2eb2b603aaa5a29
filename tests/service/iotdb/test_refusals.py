"""Statements that the other language refuses for trees of devices."""

from __future__ import annotations

import pytest

import headrace
from headrace.errors import NotSupportedError


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
