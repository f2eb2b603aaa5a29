"""The sinks that send to IoTDB by the RPC of its pipes: iotdb-thrift-sink, its synchronous and asynchronous names, and with TLS."""

from __future__ import annotations

from headrace.egress import Endpoint
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.plugins import PipeContext, Sink
from headrace.pipes.sinks.iotdb_thrift_options import read_options, validate

__all__ = ["create", "endpoints", "validate"]


def endpoints(attributes: PipeAttributes) -> tuple[Endpoint, ...]:
    """Return the nodes and the file that attributes name."""
    return read_options(attributes).endpoints


def create(attributes: PipeAttributes, pipe: PipeContext) -> Sink:
    """Return the sink, whose time limit is that of the settings. The modules of the RPC are imported only now."""
    from headrace.pipes.iotdb.receiver import ThriftSink

    rejected_since = None if pipe.shared is None else pipe.shared.rejected_since
    context = pipe.context
    return ThriftSink(read_options(attributes), context.settings.pipe_sink_timeout_ms, context.egress, rejected_since)
