"""Line protocol, written and read."""

from __future__ import annotations

import pytest

from headrace.model.time import Precision
from headrace.pipes.formats.codecs import decoder, encoder
from headrace.pipes.formats.messages import FormatOptions
from tests.pipes.formats.samples import device_rows, messages, points

LINE = FormatOptions("line")


def test_row_is_a_line() -> None:
    data = device_rows([1, 2, 3], ["root.sg.d1", "root.sg.`a b`", "root.sg.d1"], s1=[0.5, None, float("nan")], s2=[7, 8, None])

    assert encoder(LINE).encode(data).texts.to_pylist() == [
        "root.sg.d1 s1=0.5,s2=7i 1000000",
        r"root.sg.`a\ b` s2=8i 2000000",
    ]


def test_what_is_written_is_read() -> None:
    data = device_rows(
        [1, 2, -3, 4],
        ["root.sg.d1", "root.sg.`a, b`", "root.sg.d1", "root.sg.d2"],
        s1=[0.5, -1e300, 12.0, None],
        s2=["ä\n\\", None, "", '", x=1'],
        s3=[None, True, False, True],
        s4=[1, None, 2**63 - 1, -5],
    )

    decoded = decoder(FormatOptions("line", precision=Precision.MILLISECOND)).decode(
        messages(*encoder(FormatOptions("line", precision=Precision.MILLISECOND)).encode(data).texts.to_pylist())
    )

    assert not decoded.unreadable
    assert sorted(points(decoded), key=str) == sorted(points([data]), key=str)


@pytest.mark.parametrize(
    ("line", "options", "device"),
    [
        ("cpu,host=a.b,core=1 load=1 1", {"database": "root.mon"}, "root.mon.cpu.`1`.`a.b`"),
        ("cpu,host=a load=1 1", {"database": "root.mon", "device_field": "host"}, "root.mon.a"),
        ("root.mon.cpu,host=a load=1 1", {}, "root.mon.cpu.a"),
        (r"my\ cpu load=1 1", {"database": "root.mon"}, "root.mon.`my cpu`"),
        ("cpu,host=`a.b`.c load=1 1", {"database": "root.mon", "device_field": "host"}, "root.mon.`a.b`.c"),
        ("cpu,host=root.x.`a.b` load=1 1", {"device_field": "host"}, "root.x.`a.b`"),
        ("cpu load=1 1", {"device": "root.mon.x"}, "root.mon.x"),
        ("cpu load=1 1", {"uses_key": True, "database": "root.mon"}, "root.mon.k"),
    ],
)
def test_device_is_made_of_measurement_and_tags(line: str, options: dict[str, str], device: str) -> None:
    decoded = decoder(FormatOptions("line", **options)).decode(messages(line, keys=["k"]))  # type: ignore[arg-type]

    assert points(decoded) == [(device, 1, "load", 1.0)]


def test_message_may_have_many_lines() -> None:
    decoded = decoder(LINE).decode(messages('# comment\nroot.sg.d1 a=1,b="x y" 1\n\nroot.sg.d1 c=T,d\\ e=-3i 2\n'))

    assert not decoded.unreadable
    assert points(decoded) == [
        ("root.sg.d1", 1, "a", 1.0),
        ("root.sg.d1", 1, "b", "x y"),
        ("root.sg.d1", 2, "c", True),
        ("root.sg.d1", 2, "`d e`", -3),
    ]


def test_messages_that_cannot_be_read_say_why() -> None:
    bad = [
        None,
        "nonsense",
        "root.sg.d1 a=1",
        "root.sg.d1 a=abc 1",
        "root.sg.d1 a 1",
        "d1 a=1 1",
        'root.sg.d1 a="x 1',
        "root.sg.d1 a=1 1.5",
    ]

    decoded = decoder(LINE).decode(messages("root.sg.d1 a=1 1", *bad, "root.sg.d1 a=2 2"))

    assert [problem.index for problem in decoded.unreadable] == list(range(1, len(bad) + 1))
    assert [value for *_, value in points(decoded)] == [1.0, 2.0]
