"""What runs until the power fails: writers and streams, which say what was acknowledged; and the check of what survives."""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

import headrace
from headrace.model.jobs import JobState
from headrace.runtime.table_maintenance import maintain
from headrace.settings import Settings, load
from headrace.storage.delta.repair import repair_tables

WRITERS: Final = 3
DDL: Final = (
    "create database d",
    "create stable d.m (ts timestamp, v int) tags (g int)",
    "create stream d.s trigger at_once ignore expired 0 ignore update 0 into d.windows as "
    "select _wstart, count(*) n, sum(v) total from d.m partition by tbname interval(10s)",
    "create stream d.again trigger at_once ignore expired 0 ignore update 0 into d.minutes as "
    "select _wstart, count(*) n, sum(total) total from d.windows interval(1m)",
)
START: Final = 1_700_000_000_000
SECONDS: Final = 120
SETTLE: Final = "settle"


@dataclass(frozen=True, slots=True)
class Change:
    """What a writer does in one statement to its subtable: seconds with their values, None if they are deleted."""

    writer: int
    values: dict[int, int | None]

    @property
    def sql(self) -> str:
        """The statement."""
        if None in self.values.values():
            first, last = (START + second * 1_000 for second in (min(self.values), max(self.values)))
            return f"delete from d.m where tbname = 'w{self.writer}' and ts >= {first} and ts <= {last}"
        rows = " ".join(f"({START + second * 1_000}, {value})" for second, value in self.values.items())
        return f"insert into d.w{self.writer} using d.m tags ({self.writer}) values {rows}"


@dataclass
class Journal:
    """What was begun and acknowledged before the power failed."""

    rows: dict[tuple[int, int], int] = field(default_factory=dict)
    definitions: int = 0
    begun: dict[int, Change] = field(default_factory=dict)
    acknowledged: int = 0

    def note(self, line: dict[str, Any]) -> None:
        """Take a line that a process has written about itself."""
        if "definition" in line:
            self.definitions = max(self.definitions, line["definition"])
        elif "begin" in line:
            values = {int(second): value for second, value in line["begin"]["values"].items()}
            self.begun[line["begin"]["writer"]] = Change(line["begin"]["writer"], values)
        else:
            self.acknowledged += 1
            self.rows = applied(self.rows, self.begun.pop(line["end"]))

    def possible(self, writer: int) -> list[dict[int, int]]:
        """Return the rows that a writer's subtable may have: those acknowledged, and perhaps those of its last statement."""
        states = [self.rows] if writer not in self.begun else [self.rows, applied(self.rows, self.begun[writer])]
        return [{second: value for (own, second), value in rows.items() if own == writer} for rows in states]


def applied(rows: dict[tuple[int, int], int], change: Change) -> dict[tuple[int, int], int]:
    after = dict(rows)
    for second, value in change.values.items():
        after.pop((change.writer, second), None)
        if value is not None:
            after[change.writer, second] = value
    return after


def settings_of(home: Path) -> Settings:
    return load(home=home, lease_ms=1_000, sync_commits=os.environ.get("POWERCUT_RELAXED") is None)


def run(home: Path, seed: int, say: Callable[[dict[str, Any]], None]) -> None:
    """Write, process and maintain until the power fails."""
    with headrace.connect(settings=settings_of(home)) as connection:
        for number, statement in enumerate(DDL, start=1):
            if number > defined(connection):
                connection.execute(statement)
            say({"definition": number})
        threads = [threading.Thread(target=write, args=(home, writer, seed, say), daemon=True) for writer in range(WRITERS)]
        for thread in threads:
            thread.start()
        draw = random.Random(seed)
        while True:
            connection.settle()
            if draw.random() < 0.2:
                maintain(connection.session.context, "d")


def write(home: Path, writer: int, seed: int, say: Callable[[dict[str, Any]], None]) -> None:
    """Execute random statements for one subtable, one after the other."""
    with headrace.connect(settings=settings_of(home)) as connection:
        for change in changes(writer, random.Random(f"{seed} {writer}")):
            say({"begin": asdict(change)})
            connection.execute(change.sql)
            say({"end": writer})


def changes(writer: int, draw: random.Random) -> Iterator[Change]:
    """Yield random statements: most insert new rows, some update, some delete."""
    for number in count(draw.randrange(1_000_000)):
        first = draw.randrange(SECONDS)
        seconds = range(first, first + draw.choice((1, 1, 2, 5)))
        yield Change(writer, dict.fromkeys(seconds, number))
        if draw.random() < 0.15:
            yield Change(writer, dict.fromkeys(range(first, first + 2)))


def defined(connection: headrace.Connection) -> int:
    """Return how many of the definitions exist."""
    catalog = connection.session.context.catalog
    if not any(database.name == "d" for database in catalog.databases.all()):
        return 0
    names = {job.definition.name for job in catalog.jobs.all()}
    tables = {table.name for table in catalog.tables.all("d")}
    return 1 + ("m" in tables) + ("s" in names) + ("again" in names)


def check(home: Path, journal: Journal) -> dict[str, Any]:
    """Return the rows that survived a power failure; fail unless they are those acknowledged, and results equal their queries."""
    repaired = list(repair_tables(f"{home}/tables"))
    with headrace.connect(settings=settings_of(home)) as connection:
        assert defined(connection) >= journal.definitions, "an acknowledged definition is missing"
        if defined(connection) < len(DDL):
            return {"rows": [], "repaired": len(repaired), "reset": 0}
        rows = stored(connection)
        for writer in range(WRITERS):
            own = {second: value for (name, second), value in rows.items() if name == writer}
            assert own in journal.possible(writer), ("rows of", writer, own, journal.possible(writer))
        connection.settle()
        reset = reset_streams(connection)
        compare(connection, rows)
        return {
            "rows": [[writer, second, value] for (writer, second), value in rows.items()],
            "repaired": len(repaired),
            "reset": reset,
        }


def reset_streams(connection: headrace.Connection) -> int:
    """Reset the streams that stopped as a change file of a commit is missing that delta-rs had not yet acknowledged."""
    stopped = [job for job in connection.session.context.catalog.jobs.all() if job.state is JobState.STOPPED]
    for job in stopped:
        assert job.reason is not None
        assert job.reason.code == "HISTORY_GONE", job.reason
        connection.execute(f"reset stream d.{job.definition.name}")
    if stopped:
        connection.settle()
    return len(stopped)


def stored(connection: headrace.Connection) -> dict[tuple[int, int], int]:
    table = connection.session.context.catalog.tables.get("d", "m")
    found = connection.session.context.tables.scan(table).to_pylist()
    rows = {(int(row["tbname"][1:]), (round(row["ts"].timestamp() * 1_000) - START) // 1_000): row["v"] for row in found}
    assert len(rows) == len(found), "a row is there twice"
    return rows


def compare(connection: headrace.Connection, rows: dict[tuple[int, int], int]) -> None:
    """Compare the results of both streams with what their queries return."""
    windows: dict[tuple[int, int], list[int]] = {}
    for (writer, second), value in rows.items():
        windows.setdefault((writer, (START + second * 1_000) // 10_000 * 10_000), []).append(value)
    minutes: dict[int, list[int]] = {}
    for (_, start), values in windows.items():
        minutes.setdefault(start // 60_000 * 60_000, []).append(sum(values))
    expected = {
        name: sorted((start, len(own), sum(own)) for start, own in found)
        for name, found in (
            ("windows", [(start, own) for (_, start), own in windows.items()]),
            ("minutes", list(minutes.items())),
        )
    }
    for name, own in expected.items():
        table = connection.session.context.catalog.tables.get("d", name)
        results = connection.session.context.tables.scan(table).to_pylist()
        found = sorted((round(row["_wstart"].timestamp() * 1_000), row["n"], row["total"]) for row in results)
        assert found == own, (name, found, own)


def speak(descriptor: int) -> Callable[[dict[str, Any]], None]:
    """Return what writes lines to a pipe, each in one call, so that they are whole."""
    return lambda line: (os.write(descriptor, f"{json.dumps(line)}\n".encode()), None)[1]
