"""What is checked of the attributes of the source of an IoTDB server."""

from __future__ import annotations

import pytest

from headrace.errors import ProgrammingError
from headrace.model.time import Precision
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.iotdb.session_options import read_options
from headrace.pipes.sources.iotdb_session import validate

NODE = {"source.host": "a", "source.port": "1"}


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, "One of source.node-urls, source.host:source.port must be specified"),
        ({"source.host": "a"}, "One of source.node-urls, source.host:source.port must be specified"),
        ({**NODE, "path": "plant.**"}, "Illegal IoTDBPipePattern: plant.**"),
        ({**NODE, "start-time": "yesterday"}, "start-time: 'yesterday' is not a time"),
        ({**NODE, "start-time": "2", "end-time": "1"}, "source.start-time should be less than or equal to source.end-time."),
        ({**NODE, "mode": "once"}, "Invalid value once of mode. The value should be one of [live, subscribe, snapshot, query]"),
        ({**NODE, "poll-interval-ms": "0"}, "source.poll-interval-ms must be at least 1, but got 0"),
        ({**NODE, "overlap-ms": "-1"}, "source.overlap-ms must be at least 0, but got -1"),
        (
            {**NODE, "ssl.enable": "true"},
            "When ssl transport is enabled, source.ssl.trust-store-path and source.ssl.trust-store-pwd must be specified",
        ),
    ],
)
def test_invalid_attributes_are_errors(attributes: dict[str, str], expected: str) -> None:
    with pytest.raises(ProgrammingError) as caught:
        validate(PipeAttributes(attributes))
    assert caught.value.message == f"1107: {expected}"


def test_options_are_read() -> None:
    attributes = {
        "node-urls": "a:1,b:2",
        "path": "root.a.*",
        "start-time": "1970-01-01T00:00:01Z",
        "end-time": "5",
        "mode": "query",
    }
    options = read_options(PipeAttributes({**attributes, "source.password": "hidden123"}), "UTC")
    assert (options.nodes, options.path, options.is_snapshot, options.password) == (
        (("a", 1), ("b", 2)),
        "root.a.*",
        True,
        "hidden123",
    )
    assert options.start is not None
    assert options.end is not None
    assert (options.start.ticks(Precision.MICROSECOND), options.end.ticks(Precision.MICROSECOND)) == (1_000_000, 5)
    assert "hidden123" not in repr(options)
