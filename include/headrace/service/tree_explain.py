"""EXPLAIN of the stages of statements over trees of devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from headrace.model.tree_types import type_name
from headrace.model.trees import NewSeries, TemplateSeries
from headrace.service import tree_stages as stages

if TYPE_CHECKING:
    from headrace.compute import AnyPlan


def describe_tree(stage: stages.MakeTree) -> list[str]:
    """Describe the creation of a database."""
    ttl = "" if stage.ttl_ms is None else f", rows live for {stage.ttl_ms} ms"
    return [f"create database {stage.database.name} (time zone {stage.database.timezone}){ttl}"]


def describe_new_series(stage: stages.MakeSeries) -> list[str]:
    """Describe the creation of series."""
    return [f"create {'aligned ' if stage.aligned else ''}series of {stage.device}: {types(stage.series)}"]


def describe_removed_series(stage: stages.RemoveSeries) -> list[str]:
    """Describe the removal of series."""
    return [f"delete series of {device} with their values: {', '.join(names)}" for device, names in stage.series]


def describe_template(stage: stages.MakeTemplate) -> list[str]:
    """Describe the creation of a device template."""
    template = stage.template
    return [f"create {'aligned ' if template.aligned else ''}device template {template.name}: {types(template.series)}"]


def describe_removed_template(stage: stages.RemoveTemplate) -> list[str]:
    """Describe the removal of a device template."""
    return [f"drop device template {stage.name}"]


def describe_function(stage: stages.RegisterFunction) -> list[str]:
    """Describe the registration of a function."""
    return [f"create function {stage.function.name} of {stage.function.class_name}"]


def describe_removed_function(stage: stages.RemoveFunction) -> list[str]:
    """Describe the removal of a function."""
    return [f"drop function {stage.name}"]


def describe_extended_template(stage: stages.ExtendTemplate) -> list[str]:
    """Describe the extension of a device template."""
    return [f"extend device template {stage.name} and its devices: {types(stage.series)}"]


def describe_assigned_template(stage: stages.AssignTemplate) -> list[str]:
    """Describe the setting of a device template."""
    return [
        f"unset device template from {stage.path}" if stage.name is None else f"set device template {stage.name} to {stage.path}"
    ]


def describe_activated_device(stage: stages.ActivateDevice) -> list[str]:
    """Describe the activation of a device template."""
    return [f"activate device template {stage.template} on {stage.device}"]


def describe_deactivated_devices(stage: stages.DeactivateDevices) -> list[str]:
    """Describe the deactivation of device templates."""
    return [f"delete the series of {device} with their values" for device in stage.devices]


def types(series: Iterable[NewSeries | TemplateSeries]) -> str:
    """Return measurements with their types."""
    return ", ".join(f"{one.measurement} {type_name(one.type)}" for one in series)


def describe_changed_device(stage: stages.ChangeDevice) -> list[str]:
    """Describe a change of aliases, tags and attributes."""
    return [f"change alias, tags or attributes of a series of {stage.device}"]


def describe_written_series(stage: stages.WriteSeries) -> list[str]:
    """Describe the writing of rows, and what it creates."""
    device, rows, missing = stage.device, stage.rows, types(stage.missing)
    lines = []
    if stage.missing and stage.template:
        lines.append(f"extend device template {stage.template} and its devices: {missing}")
    elif stage.missing:
        lines.append(f"create {'aligned ' if device.aligned else ''}series of {device.path}: {missing}, if missing")
    if stage.is_new:
        lines.append(f"activate device template {stage.template} on {device.path}")
    if rows.num_rows:
        names = ", ".join(rows.column_names[1:])
        lines.append(f"write {rows.num_rows} rows of {device.path} ({names}) in one commit of {device.database.name}")
    return lines


def describe_load(stage: stages.LoadTree) -> list[str]:
    """Describe the loading of files."""
    count = len(stage.files)
    size = f"{count} file{'' if count == 1 else 's'} of {stage.bytes:,} bytes"
    target = stage.database.name if stage.device is None else f"device {stage.device}"
    return [f"load {size} into {target}: all rows or none", "create the series that are missing"]


def describe_cleared_series(stage: stages.ClearSeries) -> list[str]:
    """Describe the deletion of values."""
    times = "all times" if stage.ranges is None else f"{len(stage.ranges)} time ranges"
    return [f"delete values of {device} ({', '.join(columns)}), {times}" for device, columns in stage.columns]


def describe_ttl(stage: stages.ChangeTtl) -> list[str]:
    """Describe a change of a time to live."""
    return [f"keep rows of {stage.path} {'without limit' if stage.ttl_ms is None else f'for {stage.ttl_ms} ms'}"]


def describe_latest(stage: stages.FindLast) -> list[str]:
    """Describe the search for the latest points."""
    return [f"find the latest point of {len(stage.plan.series)} series"]


def describe_points(stage: stages.ReadPoints) -> list[str]:
    """Describe a SHOW that reads the times of points."""
    return [f"{stage.title}: read the catalog, and the times of points on Spark"]


def describe_groups(stage: stages.GroupByTags) -> list[str]:
    """Describe a query whose rows are groups of series."""
    from headrace.compute import explain

    plan = stage.plan
    steps = [f"  {line}" for line in explain(plan.plan)]
    return ["query on Spark", *steps, f"groups by tags {', '.join(plan.keys)}: {len(plan.groups)}"]


def describe_into(stage: stages.WriteInto) -> list[str]:
    """Describe a query whose result is written."""
    if stage.plan is None:
        return ["query of no series: nothing to write"]
    return [*describe_query(stage.plan.plan), *(f"write {target.source} to {target.path}" for target in stage.targets)]


def describe_query(plan: AnyPlan) -> list[str]:
    """Describe the evaluation of a query, and where it takes place."""
    from headrace.compute import explain
    from headrace.compute.local.evaluation import is_supported

    place = "in this process with Arrow, or on Spark if it reads many rows" if is_supported(plan) else f"on Spark{kernels(plan)}"
    return [f"query {place}", *(f"  {line}" for line in explain(plan))]


def kernels(plan: AnyPlan) -> str:
    """Describe what computes the windows of a query on Spark."""
    from headrace.compute import Plan, Scan
    from headrace.compute.evaluation.kernel_windows import unsupported_by_kernels
    from headrace.streams.sources.shares import MIN_ROWS

    if not isinstance(plan, Plan) or (plan.window is None and not isinstance(plan.source, Plan)):
        return ""
    if plan.window is None or not isinstance(plan.source, Scan):
        return kernels(plan.source) if isinstance(plan.source, Plan) else ""
    reason = unsupported_by_kernels(plan)
    return f", windows by kernels from {MIN_ROWS:,} rows on" if reason is None else f", windows by Spark SQL: {reason}"


def describe_verification(stage: stages.VerifyTree) -> list[str]:
    """Describe a verification of a query."""
    from headrace.compute import explain

    return ["query on Spark", *(f"  {line}" for line in explain(stage.plan.plan)), "run it again with DuckDB, and compare"]


DESCRIPTIONS: Final[dict[type[Any], Callable[[Any], list[str]]]] = {
    stages.MakeTree: describe_tree,
    stages.MakeSeries: describe_new_series,
    stages.RemoveSeries: describe_removed_series,
    stages.MakeTemplate: describe_template,
    stages.RemoveTemplate: describe_removed_template,
    stages.RegisterFunction: describe_function,
    stages.RemoveFunction: describe_removed_function,
    stages.ExtendTemplate: describe_extended_template,
    stages.AssignTemplate: describe_assigned_template,
    stages.ActivateDevice: describe_activated_device,
    stages.DeactivateDevices: describe_deactivated_devices,
    stages.ChangeDevice: describe_changed_device,
    stages.WriteSeries: describe_written_series,
    stages.LoadTree: describe_load,
    stages.ClearSeries: describe_cleared_series,
    stages.ChangeTtl: describe_ttl,
    stages.FindLast: describe_latest,
    stages.ReadPoints: describe_points,
    stages.GroupByTags: describe_groups,
    stages.WriteInto: describe_into,
    stages.VerifyTree: describe_verification,
}
