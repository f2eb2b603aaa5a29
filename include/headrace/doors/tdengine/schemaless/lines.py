"""Line protocol without quotes and escapes, split at the positions of its separators.

Lines with as many separators after the first space are split together: an array of offsets makes texts of what is between them,
without a copy and without a step for each line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipes.formats.line_protocol import NO_LINE
from headrace.pipes.formats.records import ID, MEASUREMENTS, VALUES, Problems
from headrace.pipes.formats.scalars import as_array

HEAD: Final = "head"
TIME: Final = "time"
LINE: Final = "line"
Positions = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
OTHER_SPACES: Final = (b"\t", b"\r", b"\v", b"\f")
NEWLINE: Final = ord("\n")
SPACE: Final = ord(" ")
NO_FIELD: Final = "a field is not name=value"
MIN_SPACES, MAX_SPACES = 1, 2
MIN_SEPARATORS: Final = 3
"""From the first space on, of a line with one field and no time."""
IS_SEPARATOR: Final = bytes(byte in b",= \n" for byte in range(256))
IS_BLANK: Final = np.array([byte in b" \n" for byte in range(256)])
LISTS: Final = pa.list_(pa.string())
NO_RECORDS: Final = pa.schema(
    [(ID, pa.int64()), (HEAD, pa.string()), (TIME, pa.string()), (MEASUREMENTS, LISTS), (VALUES, LISTS)]
).empty_table()


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines with as many separators from the first space on.

    Attributes:
        numbers: The numbers of the lines, in increasing order.
        starts: Where each line starts.
        separators: Where these separators are, a row for each line; the last one is the end of the line.
    """

    numbers: Positions
    starts: Positions
    separators: Positions

    @property
    def has_time(self) -> bool:
        """Whether a space is before the end of a valid line: the separators between fields are odd in number."""
        return bool(self.separators.shape[1] % 2 == 0)


def plain_records(messages: pa.Table, problems: Problems) -> pa.Table:
    """Return the records of messages whose texts have no quotes and no escapes: `id`, `head`, `time` as text, lists of fields."""
    texts = as_array(pc.binary_join_element_wise(messages["value"], "", "\n"))
    if any(space in content_of(texts) for space in OTHER_SPACES):
        texts = pc.replace_substring_regex(texts, r"[\t\r\v\f]", " ")
    separators, content = separators_of(texts)
    if not has_single_spaces(separators, content):
        texts = with_single_spaces(texts)
        separators, content = separators_of(texts)
    ends = np.flatnonzero(content[separators] == NEWLINE)
    table = pa.table({ID: messages_of_lines(messages, texts, separators[ends])})
    groups = lines_of(content, separators, ends, table, problems)
    parts = [part for lines in groups for part in records_of(lines, content, texts, table, problems)]
    return problems.without(in_order(parts))


def separators_of(texts: pa.Array) -> tuple[Positions, Bytes]:
    """Return the positions of separators, and the bytes of all texts."""
    content = content_of(texts)
    is_separator = np.frombuffer(content.translate(IS_SEPARATOR), np.bool_)
    return np.flatnonzero(is_separator), np.frombuffer(content, np.uint8)


def content_of(texts: pa.Array) -> bytes:
    """Return the bytes of all texts."""
    buffer = texts.buffers()[2]
    return b"" if buffer is None else bytes(buffer)


def messages_of_lines(messages: pa.Table, texts: pa.Array, ends: Positions) -> pa.Array:
    """Return the id of the message of each line."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[: len(texts) + 1]
    return as_array(messages[ID]).take(pa.array(np.searchsorted(offsets, ends, side="right") - 1))


def has_single_spaces(separators: Positions, content: Bytes) -> bool:
    """Return whether words have a single space between them, and lines have none around them."""
    adjacent = np.flatnonzero(np.diff(separators) == 1)
    first, second = (content[separators[numbers]] for numbers in (adjacent, adjacent + 1))
    is_extra = IS_BLANK[first] & IS_BLANK[second] & ((first == SPACE) | (second == SPACE))
    starts_with_space = len(content) > 0 and content[0] == SPACE
    return not starts_with_space and not is_extra.any()


def with_single_spaces(texts: pa.Array) -> pa.Array:
    """Return texts with a single space between words, and none around lines."""
    texts = pc.replace_substring_regex(texts, " +", " ")
    return pc.replace_substring_regex(texts, r" ?\n ?|^ ", "\n")


def lines_of(content: Bytes, separators: Positions, ends: Positions, table: pa.Table, problems: Problems) -> Iterator[Lines]:
    """Yield lines by the number of their separators, without empty ones, comments, and what is no line.

    `ends` are the numbers of the separators that end lines, and `table` has the message of each line.
    """
    firsts, starts = np.zeros(len(ends), np.int64), np.zeros(len(ends), np.int64)
    firsts[1:], starts[1:] = ends[:-1] + 1, separators[ends[:-1]] + 1
    spaces = np.flatnonzero(content[separators] == SPACE)
    before, until = (np.searchsorted(spaces, numbers) for numbers in (firsts, ends))
    is_text = (starts != separators[ends]) & (content[starts] != ord("#"))
    is_line = is_text & (until - before >= MIN_SPACES) & (until - before <= MAX_SPACES)
    problems.add(table, pa.array(is_text & ~is_line), NO_LINE)
    numbers = np.flatnonzero(is_line)
    heads = spaces[before[numbers]]
    counts = ends[numbers] - heads + 1
    for count in np.unique(counts):
        own = counts == count
        yield Lines(numbers[own], starts[numbers[own]], separators[heads[own][:, None] + np.arange(count)])


def records_of(lines: Lines, content: Bytes, texts: pa.Array, table: pa.Table, problems: Problems) -> Iterator[pa.Table]:
    """Yield the records of lines, with the column `line` of their numbers, without those with bad fields."""
    edges = edges_of(lines)
    is_bad = (content[lines.separators] != layout_of(lines)).any(axis=1) | (edges[:, 1::2] == edges[:, ::2]).any(axis=1)
    is_bad |= lines.separators.shape[1] < MIN_SEPARATORS
    numbers = lines.numbers
    if is_bad.any():
        problems.add(table.take(pa.array(numbers)), pa.array(is_bad), NO_FIELD)
        numbers, edges = numbers[~is_bad], edges[~is_bad]
    if len(numbers):
        ids = table[ID].take(pa.array(numbers))
        yield pa.table({ID: ids, LINE: numbers, **columns_of(edges, texts, has_time=lines.has_time)})


def layout_of(lines: Lines) -> Bytes:
    """Return the separators of a valid line: a space, those of fields, a space if there is a time, and the end."""
    layout = np.resize(np.frombuffer(b",=", np.uint8), lines.separators.shape[1])
    layout[0], layout[-1] = SPACE, NEWLINE
    if lines.has_time:
        layout[-2] = SPACE
    return layout


def edges_of(lines: Lines) -> npt.NDArray[np.int32]:
    """Return where each part of each line starts and ends: the head, names and values in turn, and the time if there is one."""
    ends = lines.separators
    edges = np.empty((len(ends), 2 * ends.shape[1]), np.int32)
    edges[:, 1::2] = ends
    edges[:, 0] = lines.starts
    edges[:, 2::2] = ends[:, :-1] + 1
    return edges


def columns_of(edges: npt.NDArray[np.int32], texts: pa.Array, *, has_time: bool) -> dict[str, pa.Array]:
    """Return the head, the time, and the lists of names and values."""
    count, width = len(edges), edges.shape[1] // 2
    # What is between two parts is a text, too: every other text is a part.
    pieces = pa.StringArray.from_buffers(edges.size - 1, pa.py_buffer(edges.ravel()), texts.buffers()[2])
    numbers = 2 * np.arange(count * width).reshape(count, width)
    fields = numbers[:, 1 : width - has_time]
    offsets = pa.array(np.arange(0, fields.size // 2 + 1, fields.shape[1] // 2), pa.int32())

    def every_other(first: int) -> pa.ListArray:
        return pa.ListArray.from_arrays(offsets, pieces.take(pa.array(fields[:, first::2].ravel())))

    times = pieces.take(pa.array(numbers[:, -1])) if has_time else pa.nulls(count, pa.string())
    return {HEAD: pieces.take(pa.array(numbers[:, 0])), TIME: times, MEASUREMENTS: every_other(0), VALUES: every_other(1)}


def in_order(parts: list[pa.Table]) -> pa.Table:
    """Return records in the order of their lines."""
    if not parts:
        return NO_RECORDS
    records = parts[0]
    if len(parts) > 1:
        records = pa.concat_tables(parts).combine_chunks()
        records = records.take(pa.array(np.argsort(records[LINE].to_numpy(), kind="stable")))
    return records.drop_columns([LINE])
