"""The reference of pipes shows what they do, and all of their parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.builtin import BY_NAME, PROCESSORS
from headrace.pipes.processors.aggregate_operators import OPERATORS
from headrace.pipes.processors.throwing_exception import STAGES
from tests.pipes.processors.streams import CONTEXT, Row, insert, rows_in
from tests.pipes.processors.streams import row as make_row

PAGE = Path(__file__).resolve().parents[3] / "docs/guides/pipes-reference.md"
EXAMPLE = re.compile(r"^Example: `(.+)`\n\n\| Time \| Value \| Delivered \|\n\|---\|---\|---\|\n((?:\|.*\n)+)", re.MULTILINE)


def examples() -> Iterator[tuple[dict[str, str], list[list[str]]]]:
    """Yield the attributes and the lines of each example."""
    for attributes, table in EXAMPLE.findall(PAGE.read_text()):
        lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
        yield dict(re.findall(r"'([^']+)'='([^']+)'", attributes)), lines


def show(one: Row) -> str:
    values = {name: f"{value:g}" for name, value in one.values.items()}
    shown = ", ".join(value if name == "d1" else f"{name} {value}" for name, value in values.items())
    return f"{one.time // 60_000:02}:{one.time // 1000 % 60:02} {shown}"


@pytest.mark.parametrize(("attributes", "lines"), list(examples()), ids=[one["processor"] for one, _ in examples()])
def test_an_example_shows_what_the_processor_does(attributes: dict[str, str], lines: list[list[str]]) -> None:
    processor = BY_NAME[attributes["processor"]].create()(PipeAttributes(attributes), CONTEXT)
    for time, value, delivered in lines:
        minutes, seconds = time.split(":")
        now = (int(minutes) * 60 + int(seconds)) * 1000
        events = processor.process([insert([make_row(now, "root.db.d", d1=float(value))])], now)
        assert "; ".join(map(show, rows_in(events))) == delivered, time


def test_all_processors_have_an_example_or_a_section() -> None:
    shown = {attributes["processor"] for attributes, _ in examples()}
    names = {one.name for one in PROCESSORS}
    assert names - shown == {"do-nothing-processor", "throwing-exception-processor"}
    assert set(re.findall(r"^\| \[?`([\w-]+-processor)`", PAGE.read_text(), re.MULTILINE)) == names


def test_all_operators_and_stages_are_listed() -> None:
    text = PAGE.read_text()
    types = {name: str(one.result) if one.result else "that of the series" for name, one in OPERATORS.items()}
    rows = [f"| `{name}` | {one.summary} | {types[name].replace('BIGINT', 'INT64')} |" for name, one in OPERATORS.items()]
    assert "\n".join(rows) in text
    assert [stage for stage in STAGES if f"| `{stage}` |" not in text] == []
