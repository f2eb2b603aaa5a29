"""What a stream keeps of subtables that were dropped: their rows stay in its results, and an event says where.

The event has the times of the rows, and the groups, if these follow from the names and tags of the subtables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.catalog import Catalog

if TYPE_CHECKING:
    from headrace.streams.definition.define import StreamPlan

SUBTABLES_DROPPED: Final = "SUBTABLES_DROPPED"
MAX_NAMES: Final = 3
MAX_GROUPS: Final = 50
"""The number of groups that an event names; if there are more, any may have had the rows."""
MAX_EVENTS: Final = 100_000
TICKS: Final = re.compile(r"rows from (-?\d+) to (-?\d+)(?: in (\[.*\]))?")

Group = Mapping[str, str | int | bool | None]
"""The values of a target's tags."""


@dataclass(frozen=True, slots=True)
class DroppedRange:
    """The first and last instants, in ticks, of dropped rows, and their groups; None if any group may have had some."""

    first: int
    last: int
    groups: Sequence[Group] | None


def dropped_message(names: Sequence[str], ticks: tuple[int, int], groups: Sequence[Group] | None) -> str:
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    within = "" if groups is None else f" in {json.dumps(groups)}"
    return f"{', '.join(names[:MAX_NAMES])}{more} dropped: results keep their rows from {ticks[0]} to {ticks[1]}{within}"


def dropped_ranges(catalog: Catalog, job_id: str) -> list[DroppedRange]:
    """Return where a stream's results have rows that were dropped with their subtables."""
    events = catalog.events.all("job", job_id, MAX_EVENTS)
    matches = (TICKS.search(event.message) for event in events if event.kind == SUBTABLES_DROPPED)
    return [
        DroppedRange(int(match[1]), int(match[2]), json.loads(match[3]) if match[3] else None)
        for match in matches
        if match is not None
    ]


def groups_of(plan: StreamPlan, subtables: pa.Table) -> list[Group] | None:
    """Return the tags of the groups of subtables, given with their tags; None unless all follow from these, or there are many."""
    from headrace.compute.nodes import Column  # INSERT needs no engine.
    from headrace.compute.plan import SERIES_KEY

    source = {SERIES_KEY: plan.source.series_key, plan.source.series_key: plan.source.series_key}
    source |= {tag.name: tag.name for tag in plan.source.tags}
    nodes = {key.column: key.node for key in plan.query.keys}
    columns: dict[str, str] = {}
    for tag in plan.groups.tags:
        node = None if tag.column is None else nodes.get(tag.column)
        if isinstance(node, Column) and node.name in source:
            columns[tag.name] = source[node.name]
    if not columns:
        return None
    values = [subtables[name].to_pylist() for name in columns.values()]
    if not all(value is None or isinstance(value, str | int) for column in values for value in column):
        return None
    distinct = list(dict.fromkeys(zip(*values, strict=True)))
    return [dict(zip(columns, group, strict=True)) for group in distinct] if len(distinct) <= MAX_GROUPS else None
