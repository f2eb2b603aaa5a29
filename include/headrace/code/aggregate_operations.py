"""The operations of a code host on a UDAF."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow as pa

from headrace.code.aggregate_calls import AggregateCall, is_mergeable
from headrace.code.requests import Answer, Request


def configure_aggregate(request: Request) -> Answer:
    """Say what a call with these parameters returns."""
    with aggregate_call(request) as call:
        return {"output_type": call.output_type, "mappable": False, "mergeable": is_mergeable(call.function)}, None


def values(request: Request) -> Answer:
    """Return the values of groups of rows, also of those without rows."""
    with aggregate_call(request) as call:
        return {}, pa.Table.from_batches([call.values(request.rows(), request.header["groups"])])


def merge(request: Request) -> Answer:
    """Return the states and values of groups of rows and states, also of those without any."""
    with aggregate_call(request) as call:
        return {}, pa.Table.from_batches([call.merge(request.rows(), request.header["groups"])])


@contextlib.contextmanager
def aggregate_call(request: Request) -> Iterator[AggregateCall]:
    """Provide a call of a new instance, which is freed in any case."""
    function = request.class_()
    try:
        yield AggregateCall(function, request.parameters(), on_group=request.progress.enter)
    except BaseException:
        with contextlib.suppress(Exception):
            function.before_destroy()
        raise
    function.before_destroy()
