"""Line protocol without quotes and escapes, split at the positions of its separators.

Lines with the same separators in the same order are split together: an array of offsets makes texts of what is between them,
without a copy and without a step for each line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

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
LAYOUT: Final = re.compile(rb"([,=]*) (=(?:,=)*)( ?)\n")
"""The separators of a valid line: those of the measurement and tags, of fields, and of the time."""
NO_LINE: Final = "it is not a line of line protocol"
NO_FIELD: Final = "a field is not name=value"


IS_SEPARATOR: Final = bytes(byte in b",= \n" for byte in range(256))
IS_BLANK: Final = np.array([byte in b" \n" for byte in range(256)])


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of the same layout.

    Attributes:
        numbers: The numbers of the lines, in increasing order.
        starts: Where each line starts.
        separators: Where its separators are, a row for each line; the last one is the end of the line.
        layout: The separators.
    """

    numbers: Positions
    starts: Positions
    separators: Positions
    layout: bytes


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
    ids = messages_of_lines(messages, texts, separators[ends])
    parts = [part for lines in layouts_of(content, separators, ends) for part in records_of(lines, texts, ids, problems)]
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


def layouts_of(content: Bytes, separators: Positions, ends: Positions) -> Iterator[Lines]:
    """Yield lines by their layouts, without empty ones and comments. `ends` are those of the separators that end lines."""
    starts = np.concatenate([[0], separators[ends[:-1]] + 1])[: len(ends)]
    firsts = np.concatenate([[0], ends[:-1] + 1])[: len(ends)]
    is_text = (starts != separators[ends]) & (content[starts] != ord("#"))
    counts = np.where(is_text, ends - firsts + 1, 0)
    for count in np.unique(counts[is_text]):
        numbers = np.flatnonzero(counts == count)
        found = separators_of_lines(separators, firsts[numbers], count)
        kinds = content[found]
        for chosen in rows_alike(kinds):
            yield Lines(numbers[chosen], starts[numbers][chosen], found[chosen], kinds[chosen][0].tobytes())


def separators_of_lines(separators: Positions, firsts: Positions, count: int) -> Positions:
    """Return the separators of lines that have `count` each, a row for each line. `firsts` are the numbers of their first ones."""
    is_all = len(firsts) * count == len(separators)
    return separators.reshape(-1, count) if is_all else separators[firsts[:, None] + np.arange(count)]


def rows_alike(kinds: Bytes) -> Iterator[Any]:
    """Yield what chooses rows that are the same."""
    if (kinds == kinds[0]).all():
        yield slice(None)
        return
    keys = np.ascontiguousarray(kinds).view(np.dtype((np.void, kinds.shape[1]))).ravel()
    _, groups = np.unique(keys, return_inverse=True)
    for group in range(groups.max() + 1):
        yield groups == group


def records_of(lines: Lines, texts: pa.Array, ids: pa.Array, problems: Problems) -> Iterator[pa.Table]:
    """Yield the records of lines, with the column `line` of their numbers, if they are lines of line protocol."""
    match = LAYOUT.fullmatch(lines.layout)
    own = ids.take(pa.array(lines.numbers))
    if match is None:
        reason = NO_LINE if lines.layout.count(b" ") not in (1, 2) else NO_FIELD
        problems.add(pa.table({ID: own}), pa.repeat(True, len(own)), reason)
        return
    space, has_time = len(match[1]), bool(match[3])
    edges = edges_of(lines, space)
    records = pa.table({ID: own, LINE: lines.numbers, **columns_of(edges, texts, has_time=has_time)})
    is_empty = pa.array((edges[:, 1::2] == edges[:, ::2]).any(axis=1))
    yield problems.add(records, is_empty, NO_FIELD)


def edges_of(lines: Lines, space: int) -> npt.NDArray[np.int32]:
    """Return where each part of each line starts and ends: the head, names and values in turn, and the time if there is one.

    `space` is the number of the separator after the head.
    """
    ends = lines.separators[:, space:]
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


LISTS: Final = pa.list_(pa.string())
NO_RECORDS: Final = pa.schema(
    [(ID, pa.int64()), (HEAD, pa.string()), (TIME, pa.string()), (MEASUREMENTS, LISTS), (VALUES, LISTS)]
).empty_table()
