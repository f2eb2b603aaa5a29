"""The dimensions of a stream, and which of their values may stand together."""

from __future__ import annotations

from typing import Final

from tests.combinations.covering import Combination, Rule

DIMENSIONS: Final = {
    "window": ("seconds", "day", "week", "month", "year", "session", "state", "event", "count", "rows"),
    "offset": ("none", "offset"),
    "slide": ("none", "half"),
    "fill": ("none", "null", "prev", "next", "linear", "value"),
    "source": ("super", "subtable", "plain"),
    "partition": ("none", "tbname", "tag", "column", "expression"),
    "trigger": ("at_once", "window_close", "max_delay 5s", "continuous_window_close recalculate 600s", "force_window_close"),
    "history": ("none", "before", "filled", "backfill", "reset", "replace"),
    "watermark": ("0", "20"),
    "expired": ("0", "1"),
    "update": ("0", "1"),
    "first": ("appended", "late", "corrected", "moved", "deleted", "dropped", "retagged", "column"),
    "second": ("appended", "late", "corrected", "moved", "deleted", "dropped", "retagged", "column"),
    "stop": ("none", "restart", "kill"),
    "precision": ("ms", "us", "ns"),
    "zone": ("UTC", "Europe/Berlin", "Asia/Kolkata"),
    "target": ("new", "existing", "named"),
    "aggregate": ("count", "sum", "avg", "min", "max", "first", "last", "spread", "stddev", "increase"),
    "type": ("i", "b", "u", "w", "f", "x", "c", "e", "s", "n", "at"),
    "condition": ("none", "number", "tag", "text", "list", "not", "time"),
}
"""`type` is the name of the column that is aggregated: see `SCHEMA`."""

SCHEMA: Final = (
    "ts timestamp, g int, i int, b bigint, u bigint unsigned, w tinyint, f float, x double, c decimal(12, 3), e bool, "
    "s varchar(20), n nchar(20), at timestamp"
)
INTERVALS: Final = ("seconds", "day", "week", "month", "year")
OF_ROWS: Final = ("state", "event", "count", "rows")
NUMERIC: Final = ("sum", "avg", "spread", "stddev", "increase")
TEXTS: Final = ("s", "n")


def has(combination: Combination, **values: str | tuple[str, ...]) -> bool:
    """Return whether all of these dimensions are chosen, each with one of these values."""
    return all(combination.get(name) in ((allowed,) if isinstance(allowed, str) else allowed) for name, allowed in values.items())


def is_expressible(combination: Combination) -> bool:
    """Return whether the grammar has a statement for a combination, and the tables what it names. It may be incomplete."""
    without_tags = has(combination, source="plain") and (
        has(combination, partition=("tag", "tbname"))
        or has(combination, condition="tag")
        or "dropped" in (combination.get("first"), combination.get("second"))
        or "retagged" in (combination.get("first"), combination.get("second"))
    )
    no_interval = has(combination, window=("session", *OF_ROWS))
    has_shape = has(combination, offset="offset") or has(combination, slide="half")
    # A stream that was created once cannot be computed again.
    is_once = has(combination, trigger="force_window_close") and has(combination, history=("backfill", "reset", "replace"))
    twice = has(combination, first="dropped", second="dropped")
    return not (
        without_tags
        or (no_interval and has_shape)
        or is_once
        or twice
        or (has(combination, window="rows") and has_rows_part(combination))
    )


def has_rows_part(combination: Combination) -> bool:
    """Return whether a combination has what only windows have: aggregates are columns without one."""
    return combination.get("aggregate", "first") != "first"


def mixes(combination: Combination) -> bool:
    """Return whether a group may have rows of several subtables."""
    return has(combination, source="super") and has(combination, partition=("none", "tag", "column", "expression"))


RULES: Final = (
    Rule(lambda c: has(c, window="event") and mixes(c), "an event window over the supertable m mixes its subtables"),
    Rule(lambda c: has(c, window="state") and mixes(c), "a state window over the supertable m mixes its subtables"),
    Rule(lambda c: has(c, window="rows") and mixes(c), "a query without a window over the supertable m mixes its subtables"),
    Rule(
        lambda c: has(c, window="rows") and c.get("trigger", "at_once") != "at_once",
        "a stream without a window needs TRIGGER AT_ONCE",
    ),
    Rule(lambda c: has(c, window="count") and mixes(c), "a count window over the supertable m mixes its subtables"),
    Rule(lambda c: has(c, window="count", watermark="0"), "a count window needs a WATERMARK above 0"),
    Rule(lambda c: has(c, window="count", expired="0"), "a count window needs IGNORE EXPIRED 1"),
    Rule(
        lambda c: has(c, window=("session", "state", "event", "count"), trigger="continuous_window_close recalculate 600s"),
        "CONTINUOUS_WINDOW_CLOSE needs INTERVAL",
    ),
    Rule(
        lambda c: has(c, window=("session", "state", "event", "count"), trigger="force_window_close"),
        "FORCE_WINDOW_CLOSE needs INTERVAL",
    ),
    Rule(
        lambda c: has(c, trigger="force_window_close") and mixes(c), "FORCE_WINDOW_CLOSE over the supertable m mixes its subtables"
    ),
    Rule(
        lambda c: has(c, trigger="force_window_close", fill=("next", "linear")),
        "is not allowed with FORCE_WINDOW_CLOSE: the next row is not known when a window is computed",
    ),
    Rule(lambda c: c.get("fill", "none") != "none" and has(c, window=("session", *OF_ROWS)), "FILL"),
    Rule(lambda c: has(c, aggregate="increase") and mixes(c), "increase over the supertable m mixes its subtables"),
    Rule(lambda c: has(c, aggregate=NUMERIC, type=(*TEXTS, "e")), "does not take"),
    Rule(lambda c: has(c, aggregate=("sum", "avg", "stddev", "increase"), type="at"), "does not take TIMESTAMP"),
)


def is_played(combination: Combination) -> bool:
    """Return whether a combination is a stream that runs."""
    return is_expressible(combination) and not any(rule.forbids(combination) for rule in RULES)


def is_near(combination: Combination) -> bool:
    """Return whether a stream needs no job of Spark while it has few rows."""
    fills = has(combination, fill=("null", "prev", "next", "linear", "value"))
    is_decimal = has(combination, aggregate=NUMERIC, type=("u", "c"))
    overlaps = has(combination, slide="half", window=("month", "year")) or has(
        combination, slide="half", window=("day", "week"), zone=("Europe/Berlin", "Asia/Kolkata")
    )
    fills_again = fills and (has(combination, history=("reset", "replace")) or has(combination, trigger="force_window_close"))
    return not (is_decimal or overlaps or fills_again)
