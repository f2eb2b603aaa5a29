"""Checks of the names of series and databases, refused with IoTDB's messages and status codes."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import Error, ExistsError, ProgrammingError
from headrace.model.paths import PathPattern, join_path, split_path
from headrace.model.spans import Span
from headrace.model.tree_statements import CreateTimeseries, TreeInsert
from headrace.model.tree_status import TreeStatus
from headrace.model.trees import Device
from headrace.service.stage import PlanningContext


def check_series(statement: CreateTimeseries, database: str, present: Device | None, session: PlanningContext) -> None:
    """Raise an error if series cannot be created: their names or aliases exist, or their device has another alignment."""
    path = join_path(statement.device.nodes)
    check_nodes(database, path, [spec.measurement for spec in statement.series], session, statement.series[0].span)
    for spec in statement.series:
        if present is not None and present.find(spec.measurement) is not None:
            raise exists(join_path((path, spec.measurement)), TreeStatus.TIMESERIES_ALREADY_EXIST, spec.span)
    check_aligned(present, statement.aligned, statement.series[0].span)
    for spec in statement.series:
        if spec.alias is not None and present is not None and present.find(spec.alias) is not None:
            raise ExistsError(
                f"Alias [{spec.alias}] for Path [{join_path((path, spec.measurement))}] already exist",
                hint="use another alias",
                span=spec.span,
            ).with_status(TreeStatus.ALIAS_ALREADY_EXIST)


def check_nodes(
    database: str,
    device: str,
    measurements: Sequence[str],
    session: PlanningContext,
    span: Span | None,
    status: TreeStatus = TreeStatus.PATH_ALREADY_EXIST,
) -> None:
    """Raise `ExistsError` if a device would be below a series, or series would be above a device."""
    nodes = split_path(device)
    above = [nodes[:length] for length in range(2, len(nodes))]
    series = [join_path((device, name)) for name in measurements]
    patterns = [PathPattern(split_path(path)) for path in series]
    trees = session.context.catalog.trees
    parents = trees.find(database, [join_path(node) for node in above])
    for parent in above:
        owner = parents.get(join_path(parent))
        if owner is not None and any(one.measurement == nodes[len(parent)] for one in owner.series):
            raise exists(join_path(nodes[: len(parent) + 1]), status, span)
    for other in trees.matching(database, patterns):
        taken = next((path for path in series if other.path == path or other.path.startswith(path + ".")), None)
        if taken is not None:
            raise exists(taken, status, span)


def exists(path: str, status: TreeStatus, span: Span | None) -> Error:
    """Return the error for a path that is taken."""
    return ExistsError(f"Path [{path}] already exist", hint="use another measurement", span=span).with_status(status)


def check_aligned(
    device: Device | None, aligned: bool, span: Span | None, status: TreeStatus = TreeStatus.ALIGNED_TIMESERIES_ERROR
) -> None:
    """Raise `ProgrammingError` if series would be created in a device that is aligned, or not, unlike the statement."""
    if device is None or device.aligned == aligned:
        return
    message = (
        "time series under this device is aligned, please use createAlignedTimeseries or change device."
        if device.aligned
        else "Time series under this device is not aligned, please use createTimeSeries or change device."
    )
    hint = "write CREATE ALIGNED TIMESERIES, or INSERT … ALIGNED VALUES" if device.aligned else "leave out ALIGNED"
    raise ProgrammingError(f"{message} (Path: {device.path})", hint=hint, span=span).with_status(status)


def check_existing_aligned(present: Device, statement: TreeInsert) -> None:
    """Raise `ProgrammingError` if some measurements exist and others do not, NULL or not, in a device that is aligned otherwise."""
    missing = sum(present.find(name) is None for name in statement.measurements)
    if present.aligned == statement.aligned or missing in (0, len(statement.measurements)):
        return
    kind, hint = ("aligned", "write INSERT … ALIGNED VALUES") if present.aligned else ("not aligned", "leave out ALIGNED")
    message = f"Timeseries under this device is {kind}, please use createTimeseries or change device. (Path: {present.path})"
    raise ProgrammingError(message, hint=hint, span=statement.span).with_status(TreeStatus.ALIGNED_TIMESERIES_ERROR)
