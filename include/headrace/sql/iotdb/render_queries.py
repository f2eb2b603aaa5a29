"""The renderer of queries of the IoTDB language."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.model.paths import PathPattern
from headrace.model.queries import SelectItem
from headrace.model.tree_queries import (
    GroupByCondition,
    GroupByCount,
    GroupBySession,
    GroupByTime,
    GroupByVariation,
    IntoTarget,
    RowGrouping,
    TimeRange,
    TreeFill,
    TreeGrouping,
    TreeOrdering,
    TreeQuery,
)
from headrace.sql.iotdb.render import RENDERER, duration_sql
from headrace.sql.iotdb.words import LEXICAL_RULES


def query_sql(query: TreeQuery) -> str:
    parts = (
        "SELECT LAST" if query.last else "SELECT",
        ", ".join(_item_sql(item) for item in query.items),
        query.into and f"INTO {', '.join(_target_sql(target) for target in query.into)}",
        f"FROM {patterns_sql(query.prefixes)}",
        query.where and f"WHERE {RENDERER.sql(query.where)}",
        query.grouping and f"GROUP BY {_grouping_sql(query.grouping)}",
        query.having and f"HAVING {RENDERER.sql(query.having)}",
        query.order_by and f"ORDER BY {', '.join(_ordering_sql(ordering) for ordering in query.order_by)}",
        query.fill and _fill_sql(query.fill),
        *_pages_sql(query),
        query.by_device and "ALIGN BY DEVICE",
    )
    return " ".join(part for part in parts if part)


def patterns_sql(patterns: Iterable[PathPattern]) -> str:
    return ", ".join(str(pattern) for pattern in patterns)


def _item_sql(item: SelectItem) -> str:
    text = RENDERER.sql(item.expression)
    return text if item.alias is None else f"{text} AS {LEXICAL_RULES.name_sql(item.alias)}"


def _target_sql(target: IntoTarget) -> str:
    aligned = "ALIGNED " if target.aligned else ""
    return f"{aligned}{'.'.join(target.device)}({', '.join(target.measurements)})"


def _grouping_sql(grouping: TreeGrouping) -> str:
    parts = (
        grouping.time and _time_sql(grouping.time),
        grouping.rows and _rows_sql(grouping.rows),
        grouping.levels and f"LEVEL = {', '.join(str(level) for level in grouping.levels)}",
        grouping.tags and f"TAGS({', '.join(LEXICAL_RULES.name_sql(tag) for tag in grouping.tags)})",
    )
    return ", ".join(part for part in parts if part)


def _time_sql(group: GroupByTime) -> str:
    lengths = [duration_sql(length) for length in (group.interval, group.step) if length is not None]
    return f"({', '.join(([] if group.range is None else [_range_sql(group.range)]) + lengths)})"


def _range_sql(range_: TimeRange) -> str:
    ends = f"{RENDERER.sql(range_.start)}, {RENDERER.sql(range_.end)}"
    return f"({ends}]" if range_.left_open else f"[{ends})"


def _rows_sql(group: RowGrouping) -> str:
    match group:
        case GroupByVariation(expression=expression, delta=delta, ignore_null=ignore_null):
            parts = ["VARIATION", RENDERER.sql(expression), str(delta)]
        case GroupByCondition(expression=expression, keep=keep, ignore_null=ignore_null):
            operator, count = keep or (">=", 0)
            parts = ["CONDITION", RENDERER.sql(expression), f"KEEP{operator}{count}"]
        case GroupByCount(expression=expression, count=count, ignore_null=ignore_null):
            parts = ["COUNT", RENDERER.sql(expression), str(count)]
        case GroupBySession(gap=gap):
            return f"SESSION({duration_sql(gap)})"
    attribute = [] if ignore_null else ["ignoreNull=false"]
    return f"{parts[0]}({', '.join(parts[1:] + attribute)})"


def _ordering_sql(ordering: TreeOrdering) -> str:
    direction = " DESC" if ordering.descending else ""
    nulls = "" if ordering.nulls_first is None else f" NULLS {'FIRST' if ordering.nulls_first else 'LAST'}"
    return f"{RENDERER.sql(ordering.key)}{direction}{nulls}"


def _fill_sql(fill: TreeFill) -> str:
    what = fill.mode.value if fill.value is None else RENDERER.sql(fill.value)
    return f"FILL({what}{'' if fill.max_age is None else f', {duration_sql(fill.max_age)}'})"


def _pages_sql(query: TreeQuery) -> Iterable[str]:
    pages = {
        "LIMIT": query.limit,
        "OFFSET": query.offset,
        "SLIMIT": query.series_limit,
        "SOFFSET": query.series_offset,
    }
    return (f"{word} {count}" for word, count in pages.items() if count is not None)
