"""Messages on which a decoder fails: they are unreadable, and keep no others from being read."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.pipes.formats.codecs import decoder
from headrace.pipes.formats.messages import FormatOptions

LARGE = "m v=99999999999999999999999999999999i 1"


@pytest.mark.parametrize("number", [0, 3, 6])
def test_a_message_that_fails_keeps_no_others_from_being_read(number: int) -> None:
    values = [f"m v={at} {at}" for at in range(6)]
    values.insert(number, LARGE)
    messages = pa.table({"id": pa.array(range(7)), "key": pa.nulls(7, pa.string()), "value": values})
    decoded = decoder(FormatOptions("line", database="root.x")).decode(messages)
    assert [one.index for one in decoded.unreadable] == [number]
    (data,) = decoded.data
    assert data.rows["v"].to_pylist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_all_messages_may_fail() -> None:
    messages = pa.table({"id": pa.array([4, 7]), "key": pa.nulls(2, pa.string()), "value": [LARGE] * 2})
    decoded = decoder(FormatOptions("line", database="root.x")).decode(messages)
    assert ([one.index for one in decoded.unreadable], list(decoded.data)) == ([4, 7], [])
