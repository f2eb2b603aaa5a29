"""The operations of a code host on a UDTF."""

from __future__ import annotations

import contextlib
from typing import Any, Final

from headrace.code.requests import Answer, CallLostError, Request
from headrace.code.series_calls import SeriesCall
from headrace.code.series_runs import SeriesRun
from headrace.udf import MappableRowByRowAccessStrategy, Parameters


def configure(request: Request) -> Answer:
    """Say what a call with these parameters returns."""
    call = create_call(request.class_, request.parameters())
    call.close()
    is_mappable = isinstance(call.configurations.access_strategy, MappableRowByRowAccessStrategy)
    return {"output_type": call.output_type, "mappable": is_mappable}, None


def series(request: Request) -> Answer:
    """Return the points of the rows of some series. If more rows of the call come in a further request, its run stays open."""
    header, more = request.header, request.header["more"]
    run = resume_run(header["call"]) if header["continues"] else begin_run(request)
    run.progress = request.progress
    try:
        points = run.process(request.rows(), more=more)
    except BaseException:
        run.close()
        raise
    if more:
        OPEN_RUNS[header["call"]] = run
    return {}, points


def forget(request: Request) -> Answer:
    """End a call of which no more rows come, and no points are wanted."""
    run = OPEN_RUNS.pop(request.header["call"], None)
    if run is not None:
        run.close()
    return {}, None


OPEN_RUNS: Final[dict[int, SeriesRun]] = {}
"""The runs of which more rows come, by the number of the call."""


def resume_run(call: int) -> SeriesRun:
    """Return the run of a call of which there were rows before."""
    run = OPEN_RUNS.pop(call, None)
    if run is None:
        raise CallLostError
    return run


def begin_run(request: Request) -> SeriesRun:
    class_, parameters = request.class_, request.parameters()
    return SeriesRun(lambda: create_call(class_, parameters))


def create_call(class_: type[Any], parameters: Parameters) -> SeriesCall:
    """Return a call of a new instance, which is freed if it cannot be prepared."""
    function = class_()
    try:
        return SeriesCall(function, parameters)
    except BaseException:
        with contextlib.suppress(Exception):
            function.before_destroy()
        raise
