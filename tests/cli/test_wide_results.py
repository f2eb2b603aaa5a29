"""Results as tables, or one line per value if the terminal is too narrow."""

from __future__ import annotations

from headrace.cli.output import format_table


def test_numbers_are_aligned_to_the_right() -> None:
    rows = [("s", 3, None, True), ("other", 12, 0.5, False)]
    assert list(format_table(("stream", "rows", "lag", "paused"), rows, 40)) == [
        "stream  rows   lag  paused",
        "s          3  NULL  True",
        "other     12   0.5  False",
    ]


def test_a_result_that_does_not_fit_is_a_line_for_each_value() -> None:
    rows = [("hourly", 3, None), ("daily", 10, "late")]
    assert list(format_table(("stream_name", "rows_expired", "message"), rows, 24)) == [
        *("stream_name   hourly", "rows_expired  3", "message       NULL", ""),
        *("stream_name   daily", "rows_expired  10", "message       late"),
    ]
    assert list(format_table(("stream_name", "rows_expired", "message"), [], 10)) == ["no rows"]


def test_long_text_in_the_last_column_is_folded() -> None:
    lines = list(format_table(("n", "text"), [(1, "many words " * 8), (2, "few")], 40))
    assert lines[:2] == ["n  text", "1  many words many words many words many"]
    assert lines[-1] == "2  few"
    assert " ".join(" ".join(lines[1:-1]).split()) == "1 " + ("many words " * 8).strip()
    assert max(map(len, lines)) <= 40


def test_without_a_terminal_nothing_is_folded() -> None:
    row = ("x" * 100, "many words " * 30)
    assert list(format_table(("a", "b"), [row])) == ["a" + " " * 101 + "b", "  ".join(row).rstrip()]


def test_a_single_column_is_never_folded() -> None:
    assert list(format_table(("plan",), [("read " * 30,)], 80)) == ["plan", ("read " * 30).rstrip()]


def test_lines_of_a_text_stay_in_their_column() -> None:
    assert list(format_table(("n", "sql", "m"), [(1, "select\n  1", 2)], 80)) == ["n  sql     m", "1  select  2", "     1"]


def test_wide_characters_take_two_columns() -> None:
    assert list(format_table(("a", "b"), [("温度", 1), ("t", 2)], 80)) == ["a     b", "温度  1", "t     2"]


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert list(format_table(("a",), [("\x1b[31mred\r",)])) == ["a", r"\x1b[31mred\x0d"]
