"""Whatever rows are written in a format, in whatever order, the last value of each point is read."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.time import Precision
from headrace.pipes.formats.codecs import decoder, encoder
from headrace.pipes.formats.messages import FormatOptions
from tests.pipes.formats.samples import device_rows, messages, points

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6).map(lambda text: f"_{text}")
COLUMNS = {
    "s1": st.none() | st.floats(allow_nan=False, allow_infinity=False),
    "s2": st.none() | TEXTS,
    "s3": st.none() | st.booleans(),
    "`s 4`": st.none() | st.integers(-(2**53) + 1, 2**53 - 1).map(float),
}
TYPES = {"s1": pa.float64(), "s2": pa.string(), "s3": pa.bool_(), "`s 4`": pa.float64()}
ROW = st.tuples(st.integers(-3, 3), st.sampled_from(["root.sg.d1", "root.sg.`a, b`", "root.sg.d3"]), st.fixed_dictionaries(COLUMNS))
BATCHES = st.lists(
    st.tuples(st.sets(st.sampled_from(list(COLUMNS)), min_size=1), st.lists(ROW, min_size=1, max_size=6)), max_size=4
)


@pytest.mark.parametrize("name", ["json", "csv", "line"])
@given(BATCHES)
@settings(max_examples=60, deadline=None)
def test_last_values_are_read(name: str, batches: list[tuple[set[str], list[Any]]]) -> None:
    options = FormatOptions(name, precision=Precision.MILLISECOND)
    texts: list[str] = []
    last: dict[tuple[str, int, str], Any] = {}
    for columns, rows in batches:
        values = {column: pa.array([row[2][column] for row in rows], TYPES[column]) for column in sorted(columns)}
        data = device_rows([row[0] for row in rows], [row[1] for row in rows], **values)
        texts += encoder(options).encode(data).texts.to_pylist()
        last |= {(device, time, column): value for device, time, column, value in points([data])}

    decoded = decoder(options).decode(messages(*texts))

    assert not decoded.unreadable
    read = {(device, time, column): value for device, time, column, value in points(decoded)}
    assert read.keys() == last.keys()
    for key, value in last.items():
        same = math.isclose(value, read[key], rel_tol=1e-15) if isinstance(value, float) else value == read[key]
        assert same, (key, value, read[key])
