"""The examples of the reference give what they show."""

from __future__ import annotations

from typing import Final

import pytest

from tests.library.calls import is_same
from tests.library.examples import Example, examples

EXAMPLES: Final = [pytest.param(example, id=f"{example.name}-{number}") for number, example in enumerate(examples())]


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) > 20


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_gives_what_it_shows(example: Example) -> None:
    for call in example.calls:
        points = example.points(call)
        assert [time for time, cell in zip(example.times, call.shown, strict=True) if cell is not None] == sorted(points)
        assert all(is_same(points.get(time), cell, 6e-4) for time, cell in zip(example.times, call.shown, strict=True))
