"""The sink to IoTDB as tests create it without a home."""

from __future__ import annotations

from headrace.egress import EgressPolicy
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.iotdb.receiver import ThriftSink
from headrace.pipes.sinks.iotdb_thrift_options import read_options
from headrace.settings import load


def unlimited() -> EgressPolicy:
    """Return the policy of a home whose only user is root."""
    return EgressPolicy(load(), lambda: True)


def sink(attributes: PipeAttributes, timeout_ms: int = 60_000) -> ThriftSink:
    """Return the sink with some attributes."""
    return ThriftSink(read_options(attributes), timeout_ms, unlimited())
