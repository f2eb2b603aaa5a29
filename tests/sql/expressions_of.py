"""Traversal of a statement's dataclasses for its expressions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, get_args

from headrace.model.expressions import Expression

EXPRESSIONS = get_args(Expression)


def expressions_of(node: Any) -> Iterator[Expression]:
    """Yield the outermost expressions in a statement or a part of one."""
    if isinstance(node, EXPRESSIONS):
        yield node
    elif isinstance(node, tuple):
        for part in node:
            yield from expressions_of(part)
    elif dataclasses.is_dataclass(node) and not isinstance(node, type):
        for field in dataclasses.fields(node):
            yield from expressions_of(getattr(node, field.name))
