"""EXPLAIN of the stages of statements over trees of devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headrace.model.tree_types import type_name
from headrace.service import tree_stages as stages


def describe_tree(stage: stages.MakeTree) -> list[str]:
    """Describe the creation of a database."""
    ttl = "" if stage.ttl_ms is None else f", rows live for {stage.ttl_ms} ms"
    return [f"create database {stage.database.name} (time zone {stage.database.timezone}){ttl}"]


def describe_new_series(stage: stages.MakeSeries) -> list[str]:
    """Describe the creation of series."""
    series = ", ".join(f"{new.measurement} {type_name(new.type)}" for new in stage.series)
    existing = ", if missing" if stage.if_not_exists else ""
    return [f"create {'aligned ' if stage.aligned else ''}series of {stage.device}: {series}{existing}"]


def describe_removed_series(stage: stages.RemoveSeries) -> list[str]:
    """Describe the removal of series."""
    return [f"delete series of {device} with their values: {', '.join(names)}" for device, names in stage.series]


def describe_changed_device(stage: stages.ChangeDevice) -> list[str]:
    """Describe a change of aliases, tags and attributes."""
    return [f"change alias, tags or attributes of a series of {stage.device}"]


def describe_written_series(stage: stages.WriteSeries) -> list[str]:
    """Describe the writing of rows."""
    return [
        f"write {rows.num_rows} rows of {device} ({', '.join(rows.column_names[1:])}) in one commit of {stage.database.name}"
        for device, rows in stage.rows
    ]


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


def describe_into(stage: stages.WriteInto) -> list[str]:
    """Describe a query whose result is written."""
    if stage.plan is None:
        return ["query of no series: nothing to write"]
    from headrace.compute import explain

    steps = [f"  {line}" for line in explain(stage.plan.plan)]
    return ["query on Spark", *steps, *(f"write {target.source} to {target.path}" for target in stage.targets)]


DESCRIPTIONS: Final[dict[type[Any], Callable[[Any], list[str]]]] = {
    stages.MakeTree: describe_tree,
    stages.MakeSeries: describe_new_series,
    stages.RemoveSeries: describe_removed_series,
    stages.ChangeDevice: describe_changed_device,
    stages.WriteSeries: describe_written_series,
    stages.ClearSeries: describe_cleared_series,
    stages.ChangeTtl: describe_ttl,
    stages.FindLast: describe_latest,
    stages.WriteInto: describe_into,
}
