"""The Spark SQL of expressions stays as it is: what a node means is what it renders as."""

from __future__ import annotations

from headrace.compute.tdengine.scalars import EXAMPLES
from tests.compute.samples import FIXTURES, pairs, select

INSIDE = "select ts, a, b, c, d, e, s, cast(null as int) nothing, cast(null as varchar(9)) nothing_s from d1"
RENDERED = FIXTURES / "rendered.txt"


def rendered() -> str:
    """Return each expression with its Spark SQL in the line after it."""
    expressions = dict.fromkeys([*(expression for expression, _ in pairs("scalars.sql")), *(call for call, _ in EXAMPLES.values())])
    texts = {expression: str(select(f"select {expression} from ({INSIDE})").outputs[0].node) for expression in expressions}
    return "".join(f"{expression}\n    {text!r}\n" for expression, text in texts.items())


def test_expressions_are_rendered_as_before() -> None:
    assert rendered() == RENDERED.read_text()
