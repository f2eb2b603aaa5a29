"""JSON of rows, written and read."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest

from headrace.model.time import Precision
from headrace.model.types import BIGINT, DOUBLE
from headrace.pipes.formats.codecs import decoder, encoder
from headrace.pipes.formats.messages import FormatOptions
from tests.pipes.formats.samples import device_rows, messages, points

JSON = FormatOptions("json")


def test_row_is_an_object_with_the_measurements_that_it_has() -> None:
    data = device_rows([1, 2, 3], ["root.sg.d1", "root.sg.d2", "root.sg.d1"], s1=[0.5, None, None], s2=[None, 'a "b"\n', None])

    texts = encoder(JSON).encode(data)

    assert texts.texts.to_pylist() == [
        '{"device":"root.sg.d1","timestamp":1,"measurements":["s1"],"values":[0.5]}',
        '{"device":"root.sg.d2","timestamp":2,"measurements":["s2"],"values":["a \\"b\\"\\n"]}',
    ]
    assert texts.devices.to_pylist() == ["root.sg.d1", "root.sg.d2"]


def test_all_types_are_json() -> None:
    day, nothing = dt.date(2024, 2, 29), float("nan")
    data = device_rows([1], ["root.sg.d1"], s1=[1.0], s2=[2], s3=[True], s4=["x"], s5=[nothing], s6=[b"\x01\xff"], s7=[day])

    (text,) = encoder(JSON).encode(data).texts.to_pylist()

    assert json.loads(text)["values"] == [1, 2, True, "x", "NaN", "0x01ff", "2024-02-29"]


@pytest.mark.parametrize(("precision", "time"), [(None, -1), (Precision.NANOSECOND, -1_000_000)])
def test_times_are_written_in_the_precision_that_is_asked_for(precision: Precision | None, time: int) -> None:
    (text,) = (
        encoder(FormatOptions("json", precision=precision)).encode(device_rows([-1], ["root.sg.d1"], s1=[1.0])).texts.to_pylist()
    )

    assert json.loads(text)["timestamp"] == time


def test_what_is_written_is_read() -> None:
    data = device_rows(
        [1, 2, 1],
        ["root.sg.d1", "root.sg.`a b`", "root.sg.d1"],
        s1=[0.5, -1e300, float("inf")],
        s2=["ä\\", None, "\x01"],
        s3=[None, True, False],
    )

    decoded = decoder(JSON).decode(messages(*encoder(JSON).encode(data).texts.to_pylist()))

    assert not decoded.unreadable
    assert sorted(points(decoded), key=str) == sorted(points([data]), key=str)


def test_payload_may_have_many_times_and_be_one_of_many() -> None:
    decoded = decoder(JSON).decode(
        messages(
            '{"device":"root.sg.d1","timestamps":[1,2],"measurements":["s1","s2"],"values":[[0.5,true],[1.5,null]]}',
            '[{"device":"root.sg.d1","timestamp":3,"measurements":["s1"],"values":[1]},'
            '\n {"device":"root.sg.d1","timestamp":4,"measurements":["s1"],"values":[2]}]',
        )
    )

    assert not decoded.unreadable
    assert [(time, name, value) for _, time, name, value in points(decoded)] == [
        (1, "s1", 0.5),
        (1, "s2", True),
        (2, "s1", 1.5),
        (3, "s1", 1.0),
        (4, "s1", 2.0),
    ]


def test_flat_objects_have_their_device_elsewhere() -> None:
    text = '{"time": "1970-01-01T00:00:01+01:00", "temperature": 21.5, "on": true, "site": "line1"}'

    keyed = decoder(FormatOptions("json", uses_key=True, database="root.plant")).decode(messages(text, keys=["line1"]))
    field = decoder(FormatOptions("json", device_field="site", database="root.plant")).decode(messages(text))
    constant = decoder(FormatOptions("json", device="root.plant.x")).decode(messages(text))

    assert points(keyed)[0] == ("root.plant.line1", -3_599_000, "temperature", 21.5)
    assert ("root.plant.line1", -3_599_000, "site", "line1") in points(keyed)
    assert points(field) == [("root.plant.line1", -3_599_000, "temperature", 21.5), ("root.plant.line1", -3_599_000, "on", True)]
    assert points(constant)[0][0] == "root.plant.x"


def test_rows_of_a_device_keep_their_order() -> None:
    texts = [
        '{"device":"root.sg.d1","timestamp":1,"measurements":["s1"],"values":[1]}',
        '{"device":"root.sg.d1","timestamp":1,"measurements":["s2","s1"],"values":["x",2]}',
        '{"device":"root.sg.d1","timestamp":1,"measurements":["s1"],"values":[3]}',
        '{"device":"root.sg.d2","timestamp":1,"measurements":["s1"],"values":["text"]}',
        '{"device":"root.sg.d2","timestamp":1,"measurements":["s1"],"values":[4]}',
    ]

    decoded = decoder(JSON).decode(messages(*texts))

    values = [(device, value) for device, _, name, value in points(decoded) if name == "s1"]
    assert [value for device, value in values if device.endswith("d1")] == [1, 2, 3]
    assert [value for device, value in values if device.endswith("d2")] == ["text", 4]


def test_numbers_are_double_unless_they_cannot_be() -> None:
    text = '{"device":"root.sg.d1","timestamp":1,"measurements":["s1","s2"],"values":[5,9007199254740993]}'

    def types(options: FormatOptions) -> list[object]:
        return [one.type for data in decoder(options).decode(messages(text)).data for one in data.columns.values()]

    assert types(JSON) == [DOUBLE, BIGINT]
    assert types(FormatOptions("json", keeps_integers=True)) == [BIGINT, BIGINT]


def test_messages_that_cannot_be_read_say_why() -> None:
    good = '{"device":"root.sg.d1","timestamp":1,"measurements":["s1"],"values":[1]}'
    bad = [
        "nonsense",
        None,
        "3",
        '{"device":"root.sg.d1","measurements":["s1"],"values":[1]}',
        '{"device":"root.sg.d1","timestamp":"soon","measurements":["s1"],"values":[1]}',
        '{"device":"d1","timestamp":1,"measurements":["s1"],"values":[1]}',
        '{"timestamp":1,"measurements":["s1"],"values":[1]}',
        '{"device":"root.sg.d1","timestamp":1,"measurements":["s1","s2"],"values":[1]}',
        '{"device":"root.sg.d1","timestamp":1,"measurements":["s1"],"values":[[1]]}',
        '{"device":"root.sg.d1","timestamps":[1,2],"measurements":["s1"],"values":[[1]]}',
    ]

    decoded = decoder(JSON).decode(messages(good, *bad, good))

    assert [problem.index for problem in decoded.unreadable] == list(range(1, len(bad) + 1))
    assert len(points(decoded)) == 2
    assert decoded.unreadable[0].reason == "it is not JSON"
    assert "there is no database" in decoded.unreadable[5].reason


def test_no_messages_say_nothing() -> None:
    assert not decoder(JSON).decode(messages()).data


@pytest.mark.parametrize("name", ["json", "csv", "line"])
def test_rows_without_values_are_not_written(name: str) -> None:
    options = FormatOptions(name)
    data = device_rows([1, 2], ["root.sg.d1", "root.sg.d1"], s1=pa.array([None, None], pa.float64()))

    assert len(encoder(options).encode(data).texts) == 0
    assert len(encoder(options).encode(data.with_rows(data.rows.select(["time", "device"]))).devices) == 0
