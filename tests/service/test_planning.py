"""The planner of each statement."""

from __future__ import annotations

import inspect
from typing import get_args

import pytest

from headrace.model.statements import Statement
from headrace.service.dispatch import load_planner


@pytest.mark.parametrize("kind", get_args(Statement))
def test_every_kind_of_statement_has_a_planner_of_its_own(kind: type[Statement]) -> None:
    assert inspect.signature(load_planner(kind)).parameters["statement"].annotation == kind.__name__
