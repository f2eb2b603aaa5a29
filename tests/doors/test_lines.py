"""Lines without quotes, split at their separators."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.doors.tdengine.schemaless.lines import HEAD, NEWLINE, NO_FIELD, TIME, lines_of, plain_records, separators_of
from headrace.doors.tdengine.schemaless.records import quoted_records
from headrace.pipes.formats.line_protocol import NO_LINE
from headrace.pipes.formats.records import ID, MEASUREMENTS, VALUES, Problems

LINES = [
    "m f=1 7",
    "m,t=a f=1,g=2 8",
    "m,t=a g=2,f=1 8",
    "é,t=ü f=ß 9",
    "m f=3",
    " m  f=2 9 ",
    "# m f=1 7",
    "",
    "m,a=b",
    "m f=1 7 8",
    "m =1 7",
    "m f= 7",
    "m f 7",
]


def table_of(*messages: str) -> pa.Table:
    return pa.table({ID: pa.array(range(len(messages)), pa.int64()), "value": pa.array(messages, pa.string())})


def records_of(*messages: str) -> tuple[list[tuple[object, ...]], dict[int, str]]:
    """Return the records, and what is wrong with messages."""
    problems = Problems()
    records = plain_records(table_of(*messages), problems)
    return [(row[ID], row[HEAD], row[TIME], row[MEASUREMENTS], row[VALUES]) for row in records.to_pylist()], problems.reasons


def test_lines_of_several_layouts_keep_their_order() -> None:
    assert records_of("m f=1 7\nm,t=a f=1,g=2 8\nm f=3 9", "", "n f=1") == (
        [
            (0, "m", "7", ["f"], ["1"]),
            (0, "m,t=a", "8", ["f", "g"], ["1", "2"]),
            (0, "m", "9", ["f"], ["3"]),
            (2, "n", None, ["f"], ["1"]),
        ],
        {},
    )


@pytest.mark.parametrize("space", ["  ", "\t", " \t ", "\v", "\f"])
def test_any_spaces_separate_words_and_none_count_around_lines(space: str) -> None:
    text = f"{space}m{space}f=1{space}7{space}\r\n{space}\n#{space}x\r\nn f=2{space}"
    assert records_of(text) == ([(0, "m", "7", ["f"], ["1"]), (0, "n", None, ["f"], ["2"])], {})


@pytest.mark.parametrize(
    ("line", "reason"),
    [("m", NO_LINE), ("m f=1 7 8", NO_LINE), ("m f", NO_FIELD), ("m f= 7", NO_FIELD), ("m =1 7", NO_FIELD), ("m f=1, 7", NO_FIELD)],
)
def test_a_bad_line_fails_its_own_message(line: str, reason: str) -> None:
    assert records_of("a f=1 1", f"m f=1 7\n{line}", "b f=1 2") == (
        [(0, "a", "1", ["f"], ["1"]), (2, "b", "2", ["f"], ["1"])],
        {1: reason},
    )


def test_lines_with_any_heads_are_split_together() -> None:
    lines = plain_records(
        table_of("\n".join(f"m{sign * number} f=1 7" for number in range(200) for sign in (",", "=", ",="))), Problems()
    )
    assert lines.num_rows == 600
    separators, content = separators_of(pa.array(["a,b=c f=1 7\nd f=2 8\ne=f,g f=1,g=2 9\nh f=3\n"]))
    ends = np.flatnonzero(content[separators] == NEWLINE)
    groups = lines_of(content, separators, ends, pa.table({ID: [0] * len(ends)}), Problems())
    assert [group.numbers.tolist() for group in groups] == [[3], [0, 1], [2]]


def test_no_messages_have_no_records() -> None:
    assert records_of() == ([], {})
    assert records_of("", "\n \n") == ([], {})


@given(st.lists(st.lists(st.sampled_from(LINES), max_size=5).map("\n".join), max_size=4))
def test_they_are_read_as_lines_with_quotes_are(messages: list[str]) -> None:
    expected = Problems()
    others = expected.without(quoted_records(table_of(*messages), expected)).to_pylist()
    found, reasons = records_of(*messages)

    assert reasons.keys() == expected.reasons.keys()
    assert [(row[ID], row[HEAD], row[TIME], row[MEASUREMENTS], row[VALUES]) for row in others] == found
