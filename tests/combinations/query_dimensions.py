"""The dimensions of a continuous query, and which of their values may stand together."""

from __future__ import annotations

from typing import Final

from tests.combinations.covering import Combination, Rule
from tests.combinations.stream_dimensions import has

DIMENSIONS: Final = {
    "scale": ("seconds", "months"),
    "zone": ("UTC", "Europe/Berlin"),
    "window": ("rows", "total", "tumbling", "sliding", "gaps", "session", "count", "variation", "ranged"),
    "aggregate": ("count", "sum", "avg", "min_value", "max_value", "first_value", "last_value", "extreme", "max_time", "stddev"),
    "type": ("INT32", "INT64", "FLOAT", "DOUBLE", "BOOLEAN", "TEXT"),
    "items": ("one", "two"),
    "source": ("one", "group", "all"),
    "level": ("none", "1", "2", "several"),
    "condition": ("none", "number", "not", "other", "time"),
    "having": ("none", "count"),
    "fill": ("none", "previous", "aged", "months", "linear", "linear aged", "value"),
    "every": ("default", "given", "short"),
    "range": ("default", "equal", "longer", "offset", "shorter", "swapped"),
    "boundary": ("default", "later", "future"),
    "policy": ("default", "BLOCKED", "DISCARD"),
    "into": ("single", "aligned", "database", "apart", "nodes", "copied", "none"),
    "first": ("appended", "late", "corrected", "deleted", "device", "paused"),
    "second": ("appended", "late", "corrected", "deleted", "device", "paused"),
    "stop": ("none", "restart", "kill"),
}
"""`items` are expressions of the SELECT; `source` are devices: one, a group, or all. `nodes` are `${2}.${3}`, ALIGN BY DEVICE."""

TIMED: Final = ("tumbling", "sliding", "gaps", "ranged")
BY_ROWS: Final = ("session", "count", "variation")
NUMERIC: Final = ("sum", "avg", "extreme", "stddev")
ORDERED: Final = ("min_value", "max_value")
LATER: Final = ("first", "second")


def aggregates(combination: Combination) -> bool:
    return combination.get("window", "rows") != "rows"


def is_expressible(combination: Combination) -> bool:
    """Return whether a combination is a statement that is worth executing. It may be incomplete."""
    no_aggregate = has(combination, window="rows") and combination.get("aggregate", "count") != "count"
    twice = has(combination, first="device", second="device")
    too_wide = has(combination, items="two", into="copied")
    levels = combination.get("level", "none") != "none" and has(combination, source=("one", "group"))
    # Groups of consecutive rows are those of one device here.
    mixed = (
        has(combination, window=BY_ROWS, source=("group", "all"))
        and combination.get("level", "none") == "none"
        and combination.get("into", "nodes") not in ("nodes", "none")
    )
    no_time = has(combination, window=("total", *BY_ROWS)) and combination.get("fill", "none") != "none"
    zoned = has(combination, scale="seconds", zone="Europe/Berlin")
    return not (no_aggregate or grows(combination) or twice or too_wide or levels or mixed or no_time or zoned)


def grows(combination: Combination) -> bool:
    """Return whether a new device would change the number of columns.

    Without ALIGN BY DEVICE and LEVEL, each series is one, and `several` levels have that of the device.
    """
    if "device" not in (combination.get("first"), combination.get("second")):
        return False
    by_series = has(combination, source=("group", "all"), level="none") and combination.get("into", "nodes") != "nodes"
    return by_series or has(combination, into="copied") or has(combination, level="several")


def is_implied(combination: Combination) -> bool:
    """Return whether an incomplete combination can be completed by none that is played. Without it, the search takes long."""
    copied = has(combination, into="copied") and (
        combination.get("aggregate", "count") != "count" or has(combination, having="count") or has(combination, every="default")
    )
    levels = combination.get("level", "none") != "none" and has(combination, into=("nodes", "copied"))
    is_by_series = combination.get("into", "nodes") != "nodes" and "device" in (combination.get("first"), combination.get("second"))
    grows = is_by_series and (has(combination, source="group") or has(combination, source="all", window=("rows", *BY_ROWS)))
    return copied or levels or grows


RULES: Final = (
    Rule(
        lambda c: has(c, every="default", window=("rows", "total", *BY_ROWS)),
        "At least one of the parameters `every_interval` and `group_by_interval` needs to be specified.",
    ),
    Rule(lambda c: has(c, every="short"), "should not be lower than the `continuous_query_minimum_every_interval`"),
    Rule(lambda c: has(c, range="shorter"), "The start time offset should be greater than or equal to every interval."),
    Rule(lambda c: has(c, range="swapped"), "The start time offset should be greater than end time offset."),
    Rule(lambda c: has(c, into="none"), "The query body misses an INTO clause."),
    Rule(lambda c: has(c, window="ranged"), "Specifying time range in GROUP BY TIME clause is prohibited."),
    Rule(lambda c: has(c, condition="time"), "Specifying time filters in the query body is prohibited."),
    Rule(lambda c: has(c, fill="linear aged"), "Only FILL(PREVIOUS) support specifying the time duration threshold."),
    Rule(lambda c: has(c, level=("1", "2", "several"), into="nodes"), "GROUP BY LEVEL does not support align by device now."),
    Rule(
        lambda c: has(c, level=("1", "2", "several"), window="rows"),
        "Common queries and aggregated queries are not allowed to appear at the same time",
    ),
    Rule(lambda c: has(c, level=("1", "2", "several"), window=BY_ROWS), "GROUP BY LEVEL"),
    Rule(lambda c: has(c, having="count", window="rows"), "HAVING clause can not be used in NonAggregationQuery"),
    Rule(lambda c: has(c, into="copied") and aggregates(c), "placeholders can only be used in raw time series data queries."),
    Rule(lambda c: has(c, aggregate=NUMERIC, type=("BOOLEAN", "TEXT")), "only support numeric data types"),
    Rule(lambda c: has(c, aggregate=ORDERED, type=("BOOLEAN", "TEXT")), "only support"),
)


def is_played(combination: Combination) -> bool:
    """Return whether a combination is a continuous query that is executed."""
    return is_expressible(combination) and not is_implied(combination) and not any(rule.forbids(combination) for rule in RULES)
