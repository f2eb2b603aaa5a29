"""Expressions are nodes, of which Spark SQL is a rendering that nothing reads back."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.compute.nodes import NOW, NULL, Column, Node, bigint, both, call, case, columns_of, double, if_, spark_sql, substitute
from tests.compute.samples import select

ROOT = Path(headrace.__file__).parent
READING = (
    "startswith",
    "endswith",
    "fullmatch",
    "match",
    "search",
    "findall",
    "finditer",
    "split",
    "sub",
    "isidentifier",
    "replace",
)
RENDERED = ("sql", "node", "filter", "having", "update", "merge", "row", "final")
column = Column("x")


def is_rendering(node: ast.AST) -> bool:
    """Return whether code is the text of an expression: `str(term.node)`, `plan.filter`, `f"{key.node}"`."""
    match node:
        case ast.Call(func=ast.Name(id="str"), args=[ast.Attribute(attr=name)]):
            return name in RENDERED
        case ast.JoinedStr(values=values):
            return any(isinstance(part, ast.FormattedValue) and is_text(part.value) for part in values)
    return is_text(node)


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in ("sql", "node")


def readings(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that compare, search or change the text of an expression."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=others):
                if any(isinstance(part, ast.Attribute) and part.attr == "sql" for part in (left, *others)):
                    yield node.lineno
            case ast.Call(func=ast.Attribute(value=subject, attr=method), args=arguments) if method in READING:
                if any(map(is_rendering, (subject, *arguments))):
                    yield node.lineno


@pytest.mark.parametrize(
    "line", ["term.sql == 'x'", "re.sub(a, b, str(key.node))", "output.node.startswith('(')", "'x' in term.sql"]
)
def test_reading_an_expression_is_found(line: str) -> None:
    assert list(readings(ast.parse(line)))


@pytest.mark.parametrize("package", ["compute", "streams/windows", "streams/filling", "streams/clocked", "queries", "history"])
def test_no_module_reads_generated_sql(package: str) -> None:
    found = [f"{path}:{line}" for path in (ROOT / package).rglob("*.py") for line in readings(ast.parse(path.read_text()))]
    assert found == []


@pytest.mark.parametrize(
    ("node", "sql"),
    [
        (both(column > bigint(1), column.is_null()), "((x > 1L) AND (x IS NULL))"),
        (case([(column.equals(NULL), double(1))]), "CASE WHEN (x = NULL) THEN 1.0D ELSE NULL END"),
        (if_(column.is_not_null(), -column, column.cast("double")), "if((x IS NOT NULL), (-x), CAST(x AS DOUBLE))"),
        (call("in", Column("a b`"), bigint(1), bigint(2)), "(`a b``` IN (1L, 2L))"),
        (spark_sql("f({x}, '{{', {})", 3, x=column), "f(x, '{', 3)"),
    ],
)
def test_nodes_are_rendered_as_spark_sql(node: Node, sql: str) -> None:
    assert str(substitute(node, {"x": column})).replace("`x`", "x") == sql


def test_columns_are_known_inside_of_sql_that_only_spark_evaluates() -> None:
    node = spark_sql("transform({}, e -> e + {})", column, call("abs", Column("y")))
    assert list(columns_of(node)) == ["x", "y"]
    assert list(columns_of(substitute(node, {"y": NOW}))) == ["x", NOW.name]


def test_an_expression_that_occurs_twice_is_one_argument() -> None:
    assert [str(argument.node) for argument in select("select sum(a + d), max(a + d), count(d) from meters").arguments] == [
        "(CAST(`a` AS DOUBLE) + `d`)",
        "`d`",
    ]
