"""Plays the examples of the timelines with a clock, each in a home of its own, and records what is committed."""

from __future__ import annotations

import re
import tempfile
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable

import headrace

NOON: Final = 1_714_564_800
"""2024-05-01 12:00:00 UTC, in seconds."""
TABLES: Final = (
    "CREATE DATABASE plant",
    "USE plant",
    "CREATE STABLE meters (ts TIMESTAMP, watts INT) TAGS (site VARCHAR(20))",
    "CREATE TABLE m1 USING meters TAGS ('north') m2 USING meters TAGS ('south')",
)


class Replay:
    """A run of an example.

    Attributes:
        timeline: What happened: `(second, kind, …)`, with seconds of the clock from noon on.
        lines: What was committed to targets, and which rows expired, as the page shows it.
    """

    def __init__(self, script: str) -> None:
        """Run each statement at the time of the comment above it."""
        self.timeline: list[tuple[Any, ...]] = []
        self.lines: list[str] = []
        self._versions: dict[tuple[str, str | None], int] = {("meters", None): 0}
        _, *parts = re.split(r"-- 12:(\d\d):(\d\d)\n?", script)
        steps = {int(m) * 60 + int(s): sql.split(";") for m, s, sql in zip(*[iter(parts)] * 3, strict=True)}
        clock = headrace.ManualClock(NOON * 1000)
        with tempfile.TemporaryDirectory() as home, headrace.connect(home=home, clock=clock) as connection:
            for sql in TABLES:
                connection.execute(sql)
            for second in range(max(steps) + 1):
                clock.set((NOON + second) * 1000)
                for sql in ["", *map(str.strip, steps.get(second, []))]:
                    self._run(connection, home, second, sql)
        self.timeline.append((max(steps), "end"))

    def _run(self, connection: headrace.Connection, home: str, second: int, sql: str) -> None:
        if sql:
            connection.execute(sql)
        if sql.startswith("CREATE STREAM"):
            stream = sql.split()[2]
            self._versions[f"{stream}_sums", stream] = 0
            self.timeline.append((second, "stream", stream, sql))
        connection.settle()
        self._record_commits(home, second)
        if sql:
            self._record_expired(connection, second)

    def _record_commits(self, home: str, second: int) -> None:
        """Read what was committed to the tables from their change data feeds."""
        for (table, stream), version in self._versions.items():
            delta = DeltaTable(f"{home}/tables/plant/{table}/rows")
            time = "ts" if stream is None else "_wstart"
            for number in range(version + 1, delta.version() + 1):
                changes = pa.table(delta.load_cdf(number, number)).to_pylist()
                for change in sorted(changes, key=lambda one: one[time]):
                    self._record_change(second, stream, change)
            self._versions[table, stream] = delta.version()

    def _record_change(self, second: int, stream: str | None, change: dict[str, Any]) -> None:
        kind = change["_change_type"].replace("update_postimage", "update")
        start = int(change["ts" if stream is None else "_wstart"].timestamp()) - NOON
        if kind == "update_preimage":
            return
        if stream is None:
            self.timeline.append((second, kind, change["tbname"], start, change["watts"]))
            return
        removed = kind == "delete"
        self.timeline.append((second, "remove" if removed else "write", stream, start, change["total"]))
        self.lines.append(f"{time_of(second)} {stream} {time_of(start)} {change['total']} {'removed' * removed}")

    def _record_expired(self, connection: headrace.Connection, second: int) -> None:
        cursor = connection.execute("SELECT stream_name, rows_expired FROM information_schema.ins_stream_progress")
        for stream, expired in cursor.fetchall():
            if expired > sum(event[1:3] == ("expired", stream) for event in self.timeline):
                self.timeline.append((second, "expired", stream))
                self.lines.append(f"{time_of(second)} {stream} row expired")


def time_of(second: int) -> str:
    return f"12:{second // 60:02}:{second % 60:02}"
