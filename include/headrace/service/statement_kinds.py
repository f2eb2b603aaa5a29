"""What a statement returns, according to its text alone."""

from __future__ import annotations

from headrace.model.statements import Describe, Explain, Select, Show, Statement
from headrace.model.tree_statements import TreeSelect, TreeShow


def returns_rows(statement: Statement) -> bool:
    """Return whether the result of a statement is rows."""
    return isinstance(statement, Select | TreeSelect | Show | TreeShow | Describe | Explain)


def only_reads(statement: Statement) -> bool:
    """Return whether a statement returns rows and changes nothing."""
    return returns_rows(statement) and not (isinstance(statement, TreeSelect) and statement.query.into)
