"""The planner of each statement."""

from __future__ import annotations

import inspect

import pytest

from headrace.model import statements, tree_statements
from headrace.model.statements import Statement
from headrace.service.dispatch import load_planner

CLASSES: set[type[Statement]] = {
    kind
    for module in (statements, tree_statements)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Statement)
}
KINDS = [kind for kind in CLASSES if not any(kind in other.__mro__[1:] for other in CLASSES)]


@pytest.mark.parametrize("kind", sorted(KINDS, key=str))
def test_every_kind_of_statement_has_a_planner_of_its_own(kind: type[Statement]) -> None:
    assert inspect.signature(load_planner(kind)).parameters["statement"].annotation == kind.__name__
