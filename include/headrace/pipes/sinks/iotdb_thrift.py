"""The sinks that send to IoTDB by the RPC of its pipes: iotdb-thrift-sink, its synchronous and asynchronous names, and with TLS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.plugins import PipeContext, Sink
from headrace.pipes.sinks.iotdb_thrift_options import read_options, validate

if TYPE_CHECKING:
    from headrace.pipes.iotdb.receiver import ThriftSink

__all__ = ["create", "validate"]


def create(attributes: PipeAttributes, _: PipeContext) -> Sink:
    """Return the sink."""
    return sink(attributes)


def sink(attributes: PipeAttributes) -> ThriftSink:
    """Return the sink. The modules of the RPC are imported only now."""
    from headrace.pipes.iotdb.receiver import ThriftSink

    return ThriftSink(read_options(attributes))
