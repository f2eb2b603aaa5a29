"""The streams of a soak: every window, with late, updated and deleted rows recomputed, so that streams equal queries."""

from __future__ import annotations

from typing import Final

EXACT: Final = "IGNORE EXPIRED 0 IGNORE UPDATE 0 FILL_HISTORY 1"
AGGREGATES: Final = "_wstart, count(*) n, sum(a) total, max(b) top, last(a) latest"
TABLES: Final = (
    "CREATE STABLE readings (ts TIMESTAMP, a INT, b VARCHAR(16)) TAGS (g INT)",
    "CREATE STABLE ordered (ts TIMESTAMP, a INT, b VARCHAR(16)) TAGS (g INT)",
)
STREAMS: Final = {
    "minute": f"{EXACT} INTO out_minute AS SELECT {AGGREGATES} FROM readings PARTITION BY tbname INTERVAL(1m)",
    "overlapping": f"TRIGGER AT_ONCE {EXACT} INTO out_overlapping AS SELECT {AGGREGATES} FROM readings INTERVAL(1m) SLIDING(20s)",
    "by_tag": f"WATERMARK 30s {EXACT} INTO out_tag AS SELECT {AGGREGATES} FROM readings WHERE a > 2 PARTITION BY g INTERVAL(30s)",
    "sessions": f"TRIGGER AT_ONCE {EXACT} INTO out_session AS SELECT {AGGREGATES} FROM readings "
    "PARTITION BY tbname SESSION(ts, 5s)",
    "states": f"{EXACT} INTO out_states AS SELECT {AGGREGATES} FROM readings PARTITION BY tbname STATE_WINDOW(a)",
    "events": f"TRIGGER AT_ONCE {EXACT} INTO out_events AS SELECT {AGGREGATES} FROM readings PARTITION BY tbname "
    "EVENT_WINDOW START WITH a = 1 END WITH b = 'x'",
    "counts": f"WATERMARK 10s FILL_HISTORY 1 INTO out_count AS SELECT {AGGREGATES} FROM ordered "
    "PARTITION BY tbname COUNT_WINDOW(7)",
    "filled": f"TRIGGER AT_ONCE {EXACT} INTO out_filled AS SELECT {AGGREGATES} FROM readings PARTITION BY tbname "
    "INTERVAL(1m) FILL(PREV)",
    "filled_tag": f"WATERMARK 30s {EXACT} INTO out_filled_tag AS SELECT {AGGREGATES} FROM readings PARTITION BY g "
    "INTERVAL(30s) FILL(NULL)",
    "rows": f"TRIGGER AT_ONCE {EXACT} INTO out_rows AS SELECT ts, a + 1 more, b FROM readings WHERE a > 0 PARTITION BY tbname",
}
CHAINED: Final = "TRIGGER AT_ONCE FILL_HISTORY 1 IGNORE EXPIRED 0 IGNORE UPDATE 0 INTO out_chained AS "
"""A stream over the target of another one."""
STREAMS_OF_STREAMS: Final = {"chained": f"{CHAINED}SELECT _wstart, sum(n) n FROM out_minute INTERVAL(10m)"}


def create_stream_sql(name: str) -> str:
    """Return the statement that creates one of the streams."""
    return f"CREATE STREAM {name} {({**STREAMS, **STREAMS_OF_STREAMS})[name]}"
