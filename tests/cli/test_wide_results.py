"""Results in a terminal, as tables or one line per value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from headrace.cli import console


class Rows:
    """A result with one row."""

    def __init__(self, row: Sequence[tuple[str, Any]]) -> None:
        self.names = [name for name, _ in row]
        self._values = tuple(value for _, value in row)

    def tuples(self) -> Iterator[tuple[Any, ...]]:
        return iter([self._values])


def displayed_lines(rows: Rows, width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(console.out, "width", width)
    with console.out.capture() as captured:
        console.show_rows(rows, console.Format.TABLE)
    return [" ".join(line.split()) for line in captured.get().splitlines()]


def test_a_result_that_fits_is_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    assert displayed_lines(Rows([("stream", "s"), ("rows", 3)]), 20, monkeypatch) == ["stream rows", "s 3"]


def test_a_result_whose_words_do_not_fit_is_a_line_for_each_value(monkeypatch: pytest.MonkeyPatch) -> None:
    row = [("stream_name", "hourly"), ("rows_expired", 3), ("message", None)]
    assert displayed_lines(Rows(row), 24, monkeypatch) == ["stream_name hourly", "rows_expired 3", "message NULL"]


def test_long_text_alone_is_folded_within_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = displayed_lines(Rows([("n", 1), ("text", "many words " * 8)]), 40, monkeypatch)
    assert lines[0] == "n text"
    assert len(lines) > 2
