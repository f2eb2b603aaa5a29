"""The source `iotdb-session-source`: the series of an IoTDB server, its history first, and then what follows."""

from __future__ import annotations

from headrace.egress import Endpoint
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.iotdb.session_options import read_options
from headrace.pipes.plugins import PipeContext, Source


def validate(attributes: PipeAttributes) -> None:
    """Check the attributes of the source; raise `ProgrammingError` if one is missing or invalid."""
    read_options(attributes, "UTC")


def endpoints(attributes: PipeAttributes) -> tuple[Endpoint, ...]:
    """Return the nodes and the file that attributes name."""
    return read_options(attributes, "UTC").endpoints


def create(attributes: PipeAttributes, pipe: PipeContext) -> Source:
    """Return the source. The modules of the RPC are imported only now."""
    from headrace.pipes.iotdb.reader import SessionSource

    return SessionSource(read_options(attributes, pipe.context.settings.timezone), pipe.context.egress)
