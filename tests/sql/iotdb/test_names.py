"""Names of result columns: what IoTDB 1.3.4 answered for each."""

from __future__ import annotations

import pytest

from headrace.model.expressions import Call, Cast, ColumnRef, Expression, Literal, transform
from headrace.model.tree_statements import TreeSelect
from headrace.model.types import BIGINT
from headrace.sql import parse
from headrace.sql.iotdb.names import result_name


def _expression(written: str) -> Expression:
    statement = parse(f"SELECT {written} FROM root.d", "iotdb")
    assert isinstance(statement, TreeSelect)
    return statement.query.items[0].expression


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("s1+s2", "s1 + s2"),
        ("- s1", "-s1"),
        ("+s1", "s1"),
        ("((s1))", "s1"),
        ("--s1", "-(-s1)"),
        ("--2 + a", "-(-2) + a"),
        ("a in (1) * b", "(a IN (1)) * b"),
        ("a is null = b", "(a IS NULL) = b"),
        ("a < b is null", "a < b IS NULL"),
        ("NOT b", "!b"),
        ("!(s1>1)", "!(s1 > 1)"),
        ("!(-a)", "!(-a)"),
        ("-sin(a)", "-sin(a)"),
        ("-case when a then b end", "-(CASE WHEN a THEN b END)"),
        ("a<>1 && b==2 || c", "a != 1 & b = 2 | c"),
        ("(a or b) and c", "(a | b) & c"),
        ("a and (b and c)", "a & b & c"),
        ("(s1+s2)*s1", "(s1 + s2) * s1"),
        ("s1-(s2-s1)", "s1 - s2 - s1"),
        ("a > (b and c)", "a > (b & c)"),
        ("(a = b) + c", "(a = b) + c"),
        ("a in (1,2,'x',1, TRUE)", "a IN (1,2,x,TRUE)"),
        ("a not in (1)", "a NOT IN (1)"),
        ("a contains (1, 2)", "a IN (1,2)"),
        ("a+1 in (1)", "(a + 1) IN (1)"),
        ("-a in (1)", "(-a) IN (1)"),
        ("sin(a) in (1)", "sin(a) IN (1)"),
        ("(a and b) is null", "a & b IS NULL"),
        ("a is not null", "a IS NOT NULL"),
        ("(a and b) between 1 and 2", "a & b BETWEEN 1 AND 2"),
        ("(a between 1 and 2) = true", "(a BETWEEN 1 AND 2) = true"),
        ("a not like 'x_y%'", "a LIKE '^x.y.*?$'"),
        ("a like 'a.c*'", r"a LIKE '^a\.c\*$'"),
        (r"a like 'a\%b'", r"a LIKE '^a\%b$'"),
        ("a not regexp '^x'", "a REGEXP '^x'"),
        ("a + 1.50", "a + 1.50"),
        ("a + .5", "a + .5"),
        ("a - +1", "a - +1"),
        ("a + TRUE", "a + true"),
        ("""a + 'it''s "so"'""", '''a + "it's "so""'''),
        ("a + X'0a'", "a + 0A"),
        ("Count(a)", "Count(a)"),
        ("count(*)", "count(*)"),
        ("top_k(a,'k'='3','x'=\"y\")", 'top_k(a, "k"="3", "x"="y")'),
        ("count_if(a>1, KEEP>=2, 'ignoreNull'='false')", 'count_if(a > 1, KEEP >= 2, "ignoreNull"="false")'),
        ("cast(a+1 as text)", "CAST(a + 1 AS text)"),
        ("Cast(a as 'INT32')", "CAST(a AS INT32)"),
        ("replace(a,'x','y')", "REPLACE(a, 'x', 'y')"),
        ("round(a)", "ROUND(a)"),
        ("Round(a, -1)", "ROUND(a,-1)"),
        ("substring(a, 1, 2)", "SUBSTRING(a,1,2)"),
        ("substring(a from 1 for 2)", "SUBSTRING(a FROM 1 FOR 2)"),
        ("substring(a from 1)", "SUBSTRING(a FROM 1)"),
        ("case a when 1 then 'x' else b end", 'CASE WHEN a = 1 THEN "x" ELSE b END'),
        ("`a b`.`c`", "`a b`.c"),
        ("`f x`(a)", "f x(a)"),
        ("s1*-2", "s1* - 2"),
    ],
)
def test_a_column_is_named_as_iotdb_names_it(written: str, name: str) -> None:
    assert result_name(_expression(written)) == name


def test_a_series_in_full_takes_the_place_of_its_suffix() -> None:
    named = transform(_expression("count(s1) + 1"), lambda node: ColumnRef("root.sg.d.s1") if isinstance(node, ColumnRef) else None)
    assert result_name(named) == "count(root.sg.d.s1) + 1"


def test_what_was_not_parsed_has_a_name_too() -> None:
    assert result_name(Cast(Call("sum", (ColumnRef("a"),)), BIGINT)) == "CAST(sum(a) AS INT64)"
    assert result_name(Call("+", (Literal(1), Literal(0.5)))) == "1 + 0.5"
