"""CSV of rows, written and read."""

from __future__ import annotations

from headrace.model.types import BIGINT, DOUBLE
from headrace.pipes.formats.codecs import decoder, encoder
from headrace.pipes.formats.messages import FormatOptions
from tests.pipes.formats.samples import device_rows, messages, points

CSV = FormatOptions("csv")


def test_row_has_its_header() -> None:
    data = device_rows([1, 2, 3], ["root.sg.d1", "root.sg.`a,b`", "root.sg.d1"], s1=[0.5, None, None], s2=['a "b"', "", None])

    texts = encoder(CSV).encode(data).texts.to_pylist()

    assert texts == [
        'time,device,s1,s2\n1,root.sg.d1,0.5,"a ""b"""',
        'time,device,s1,s2\n2,"root.sg.`a,b`",,""',
    ]


def test_columns_may_be_named_instead() -> None:
    options = FormatOptions("csv", columns=("device", "s2", "timestamp", "s9"))
    data = device_rows([1, 2], ["root.sg.d1", "root.sg.d1"], s1=[0.5, 1.5], s2=[7, None])

    texts = encoder(options).encode(data).texts.to_pylist()

    assert texts == ["root.sg.d1,7,1,"]
    assert points(decoder(options).decode(messages(*texts))) == [("root.sg.d1", 1, "s2", 7)]


def test_what_is_written_is_read() -> None:
    data = device_rows(
        [1, 2, 3, 4],
        ["root.sg.d1", "root.sg.`a,b`", "root.sg.d1", "root.sg.d2"],
        s1=[0.5, -1e300, float("inf"), None],
        s2=["ä\n\\", None, "", '"'],
        s3=[None, True, False, True],
    )

    decoded = decoder(CSV).decode(messages(*encoder(CSV).encode(data).texts.to_pylist()))

    assert not decoded.unreadable
    assert points(decoded) == points([data])


def test_message_may_have_many_rows() -> None:
    decoded = decoder(FormatOptions("csv", uses_key=True, database="root.sg")).decode(
        messages("time,s1\n1,1.5\r\n2,2.5\n", "time,s1\n3,3.5", "time,s1,s2\n4,4.5,on", keys=["d1", "d2", "d1"])
    )

    assert not decoded.unreadable
    assert [(device, time, value) for device, time, name, value in points(decoded) if name == "s1"] == [
        ("root.sg.d1", 1, 1.5),
        ("root.sg.d1", 2, 2.5),
        ("root.sg.d1", 4, 4.5),
        ("root.sg.d2", 3, 3.5),
    ]


def test_whole_numbers_are_double_unless_int64_is_asked_for() -> None:
    text = "time,device,s1\n1,root.sg.d1,5"

    for keeps, expected in ((False, DOUBLE), (True, BIGINT)):
        (data,) = decoder(FormatOptions("csv", keeps_integers=keeps)).decode(messages(text)).data
        assert [one.type for one in data.columns.values()] == [expected]


def test_messages_that_cannot_be_read_say_why() -> None:
    header = "time,device,s1\n"
    bad = [
        None,
        "",
        header,
        f"{header}1,root.sg.d1",
        f"{header}1,root.sg.d1,1\n2,root.sg.d1,2,3",
        f"{header},root.sg.d1,1",
        f"{header}1,d1,1",
    ]

    decoded = decoder(CSV).decode(messages(f"{header}1,root.sg.d1,1", *bad, f"{header}2,root.sg.d1,2"))

    assert [problem.index for problem in decoded.unreadable] == list(range(1, len(bad) + 1))
    assert "does not have 3 fields" in decoded.unreadable[3].reason
    assert [time for _, time, _, _ in points(decoded)] == [1, 2]
