"""What is checked of the attributes of the sinks to IoTDB."""

from __future__ import annotations

import socket

import pytest

from headrace.errors import Error, NotSupportedError, OperationalError
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.sinks.iotdb_thrift import validate
from headrace.pipes.sinks.iotdb_thrift_options import read_options
from tests.pipes.thrift import sink

NODE = {"sink.ip": "127.0.0.1", "sink.port": "6667"}
STORE = {"sink.ssl.trust-store-path": "/x", "sink.ssl.trust-store-pwd": "hidden123"}
MISSING = "One of connector.node-urls, connector.host:connector.port, sink.node-urls, sink.host:sink.port must be specified"
BAD_NODES = "Error occurred while parsing node urls from target servers, please check the specified 'host':'port' or 'node-urls'"
NO_STORE = "When ssl transport is enabled, sink.ssl.trust-store-path and sink.ssl.trust-store-pwd must be specified"


def message(attributes: dict[str, str]) -> str:
    with pytest.raises(Error) as caught:
        validate(PipeAttributes(attributes))
    return caught.value.message


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, MISSING),
        ({"sink.ip": "a"}, MISSING),
        ({"sink.thrift.host": "a"}, MISSING),
        ({"port": "1"}, MISSING),
        ({**NODE, "batch.size-bytes": "0"}, "sink.batch.size-bytes must be > 0, but got 0"),
        (
            {**NODE, "user": "a", "sink.username": "b"},
            "Cannot specify both [connector.user, sink.user] and [connector.username, sink.username] at the same time",
        ),
        (
            {**NODE, "load-balance-strategy": "Best"},
            "Load balance strategy should be one of [round-robin, random, priority], but got best.",
        ),
        ({**NODE, "load-tsfile-strategy": "x"}, "Load tsfile strategy should be one of [async, sync], but got x."),
        ({**NODE, "compressor.zstd.level": "23"}, "Zstd compression level should be in the range [-131072, 22], but got 23."),
        ({**NODE, "compressor": "lz4, rar"}, "Compressor should be one of [snappy, gzip, lz4, zstd, lzma2], but got rar."),
        (
            {**NODE, "exception.conflict.resolve-strategy": "x"},
            "The value of key connector.exception.conflict.resolve-strategy or sink.exception.conflict.resolve-strategy"
            " must be either 'retry' or 'ignore'.",
        ),
        (
            {**NODE, "sink.format": "csv"},
            "Invalid value csv of sink.format. The value should be one of [tablet, hybrid, tsfile]",
        ),
        ({**NODE, "sink": "iotdb-thrift-ssl-sink"}, NO_STORE),
        ({**NODE, "sink": "iotdb-thrift-sync-sink", "sink.ssl.enable": "true"}, NO_STORE),
        ({**NODE, **STORE, "sink.ssl.enable": "true"}, "Only 'iotdb-thrift-ssl-sink' supports SSL transmission currently."),
        ({"node-urls": "localhost"}, BAD_NODES),
        ({"node-urls": "a:1,b:x"}, BAD_NODES),
        ({"node-urls": ":1"}, BAD_NODES),
    ],
)
def test_invalid_attributes_are_errors_with_iotdbs_text(attributes: dict[str, str], expected: str) -> None:
    assert message(attributes) == f"1107: {expected}"


def test_files_are_not_supported() -> None:
    with pytest.raises(NotSupportedError, match="tablets"):
        validate(PipeAttributes({**NODE, "sink.format": "tsfile"}))


def test_what_is_wrong_first_is_reported_first() -> None:
    assert MISSING in message({"sink.format": "csv", "batch.size-bytes": "0"})
    assert "must be > 0" in message({**NODE, "sink.format": "csv", "batch.size-bytes": "0"})


@pytest.mark.parametrize(
    ("attributes", "nodes"),
    [
        ({"connector.host": "a", "sink.port": "1"}, (("a", 1),)),
        ({"sink.thrift.host": "a", "sink.thrift.port": "1"}, (("a", 1),)),
        ({"ip": "a", "port": "1", "sink.node-urls": "b:2, a:1,[::1]:3"}, (("a", 1), ("b", 2), ("::1", 3))),
    ],
)
def test_nodes_may_be_named_in_all_ways(attributes: dict[str, str], nodes: object) -> None:
    assert read_options(PipeAttributes(attributes)).nodes == nodes


def test_options_have_defaults_and_hide_passwords() -> None:
    options = read_options(PipeAttributes({**NODE, **STORE, "sink": "iotdb-thrift-ssl-sink", "compressor": " LZ4 ,, zstd"}))
    assert (options.user, options.password, options.batch_bytes, options.strategy) == ("root", "root", 16 << 20, "round-robin")
    assert (options.compressors, options.has_tls, options.trust_store) == (("lz4", "zstd"), True, "/x")
    assert "hidden123" not in repr(options)
    ignored = {"batch.enable": "false", "leader-cache.enable": "false", "parallel.tasks": "4", "realtime-first": "true"}
    assert read_options(PipeAttributes({**NODE, **ignored})) == read_options(PipeAttributes(NODE))


def test_a_receiver_that_does_not_answer_is_given_up_after_the_time_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        one = sink(PipeAttributes({"sink.ip": "127.0.0.1", "sink.port": str(silent.getsockname()[1])}), timeout_ms=100)
        with pytest.raises(OperationalError):
            one.handshake()
        one.close()
