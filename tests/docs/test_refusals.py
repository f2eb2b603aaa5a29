"""What the reference says is not supported, cannot be done or is rejected: each such sentence is played, or tested elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from tests.docs.pages import ROOT

REFERENCE = ROOT / "docs" / "reference"
PAGES = ("statements.md", "differences.md", "statements-iotdb.md")
REFUSAL = re.compile(r"not supported|cannot|rejected|refuse", re.IGNORECASE)
SENTENCE_END = re.compile(r"(?<=[.:;])\s+(?=[A-Z`])")
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
WINDOW = "AS SELECT _wstart, count(*) n FROM plain INTERVAL(1m)"
HOME = (
    "CREATE DATABASE u PRECISION 'us'",
    "CREATE TABLE u.fine (ts TIMESTAMP, a INT)",
    "CREATE DATABASE d",
    "USE d",
    "CREATE STABLE readings (ts TIMESTAMP, a INT, b INT, c VARCHAR(8)) TAGS (place VARCHAR(8))",
    "CREATE TABLE dev1 USING readings TAGS ('east')",
    "CREATE TABLE plain (ts TIMESTAMP, a INT, b INT)",
    "CREATE TABLE keyed (ts TIMESTAMP, k INT COMPOSITE KEY, a INT)",
    "CREATE TABLE taken (ts TIMESTAMP, n INT)",
    "CREATE VTABLE v (ts TIMESTAMP, x INT FROM plain.a)",
    "CREATE STREAM s INTO out AS SELECT _wstart, sum(a) n FROM readings INTERVAL(1m)",
    "CREATE STREAM w INTO out_v AS SELECT _wstart, sum(x) n FROM v INTERVAL(1m)",
    "ALTER STABLE readings DROP COLUMN b",
)
PLAYED: dict[str, tuple[str, ...]] = {
    "You cannot drop or rename a column or tag": (
        "ALTER STABLE readings DROP COLUMN a",
        "ALTER TABLE out DROP COLUMN n",
        "ALTER STABLE readings DROP COLUMN ts",
        "ALTER STABLE readings DROP TAG place",
    ),
    "you cannot use its name again": ("ALTER STABLE readings ADD COLUMN b INT",),
    "Other types cannot be changed": ("ALTER STABLE readings MODIFY COLUMN a BIGINT",),
    "a stream or a virtual": ("ALTER TABLE plain RENAME COLUMN b z",),
    "Tables with a composite key cannot be origins": ("CREATE VTABLE y (ts TIMESTAMP, x INT FROM keyed.a)",),
    "A column that a stream reads cannot be dropped": ("ALTER VTABLE v DROP COLUMN x", "ALTER VTABLE v RENAME COLUMN x z"),
    "`GROUP BY` cannot be combined with a window": ("SELECT count(*) FROM readings INTERVAL(1m) GROUP BY place",),
    "and cannot have aggregates": (
        "CREATE STREAM x TRIGGER AT_ONCE INTO y AS SELECT ts, count(*) FROM plain",
        "CREATE STREAM x INTO y AS SELECT ts, a FROM plain",
        "CREATE STREAM x TRIGGER AT_ONCE INTO y AS SELECT a, ts FROM plain",
    ),
    "lose fractions": ("CREATE STREAM x TRIGGER AT_ONCE INTO d.y AS SELECT ts, a FROM u.fine",),
    "A stream whose results are rows of its own source": (
        "CREATE STREAM x INTO taken AS SELECT _wstart, count(*) n FROM taken INTERVAL(1m)",
    ),
    "Other options cannot change in place": ("ALTER STREAM s FILL_HISTORY 1", "ALTER STREAM s TRIGGER AT_ONCE"),
    "`EXPLAIN` fails if the statement would be rejected": ("EXPLAIN CREATE STREAM x INTO y AS SELECT ts, a FROM plain",),
    "A table or column that a virtual table refers to cannot be": ("DROP TABLE plain", "ALTER TABLE plain DROP COLUMN a"),
    "months and years are rejected": (
        f"CREATE STREAM x WATERMARK 1n INTO y {WINDOW}",
        f"CREATE STREAM x DELETE_MARK 1y INTO y {WINDOW}",
    ),
}
"""Statements that are refused, by a part of the sentence that says so."""
TREE_HOME = (
    "create timeseries root.plant.p1.speed with datatype=INT32",
    "create device template t (s1 INT32)",
    "set device template t to root.plant.pumps",
    "create timeseries using device template on root.plant.pumps.p2",
    "set ttl to root.plant.p1 3600000",
    "create continuous query taken begin select count(speed) into root.counts.p1(n) from root.plant.p1 group by (1h) end",
)
TREES: dict[str, tuple[str, ...]] = {
    "A template that is set to a path cannot be dropped": ("drop device template t",),
    "Series of a template cannot be created": (
        "create timeseries root.plant.pumps.p2.s1 with datatype=INT32",
        "alter timeseries root.plant.pumps.p2.s1 add attributes a=1",
        "delete timeseries root.plant.pumps.p2.s1",
    ),
    "A value of the wrong type refuses the whole statement": (
        "insert into root.plant.p1(time, speed) values (now(), 1), (1, 'fast')",
    ),
    "loads with such a row are refused with 607": ("insert into root.plant.p1(time, speed) values (1, 1)",),
    "701 without an interval, 305 for a rule": (
        "create continuous query a begin select count(speed) into root.counts.p1(n) from root.plant.p1 end",
        "create continuous query a resample every 1h range 1h, 2h "
        "begin select count(speed) into root.counts.p1(n) from root.plant.p1 group by (1h) end",
        "create continuous query taken begin select count(speed) into root.counts.p1(n) from root.plant.p1 group by (1h) end",
    ),
    "there is no such function": ("drop function nothing", "create function f as 'no.such.Function'"),
    "there is no such trigger": (
        "drop trigger nothing",
        "create stateless trigger x before delete on root.plant.** as 'no.such.Trigger'",
        "create stateless trigger x before insert on root.plant.** as 'no.such.Trigger'",
    ),
    "there is no such plugin": ("drop pipeplugin nothing", "create pipeplugin x as 'no.such.Plugin'"),
}
"""Statements of the IoTDB dialect that are refused, likewise."""
ELSEWHERE = {
    "is refused while a stream that runs calls the function": "tests/service/test_failing_functions.py",
    "Headrace refuses these, most of them with a hint": "tests/docs/test_refusals.py",
    "What writes to it is refused": "tests/service/iotdb/test_external_databases.py",
    "cannot be written:": "tests/service/iotdb/test_ttl.py",
    "A function that a continuous query calls cannot be dropped": "tests/service/iotdb/test_registration.py",
    "A plugin that a pipe uses cannot be dropped": "tests/service/iotdb/test_pipe_plugins.py",
    "A write that began before its column": "tests/service/test_alter.py",
    "with which results cannot be computed": "tests/streams/test_quarantine.py",
    "that the column cannot hold": "tests/streams/test_targets.py",
    "what the column cannot hold": "tests/streams/test_targets.py",
    "A function that a stream calls cannot be dropped": "tests/service/test_failing_functions.py",
    "A user with `ENABLE 0` cannot log in": "tests/catalog/test_access.py",
    "those that cannot have matching rows": "tests/service/test_skipping.py",
    "all of which TDengine rejects": "tests/streams/test_virtual_tables.py",
    "[not supported](#not-supported)": "tests/docs/test_refusals.py",
}
"""The tests of other sentences, which take more than a statement."""
NOT_SUPPORTED: dict[str, tuple[str, ...]] = {
    "`WINDOW` joins": ("SELECT a.ts FROM plain a LEFT WINDOW JOIN plain b ON a.a = b.a WINDOW_OFFSET(-1s, 1s)",),
    "`ANOMALY_WINDOW`": ("SELECT count(*) FROM plain ANOMALY_WINDOW(a)", "SELECT forecast(a) FROM plain"),
    "`_qstart`": ("SELECT _qstart, count(*) FROM plain INTERVAL(1m)", "SELECT _qend, count(*) FROM plain INTERVAL(1m)"),
    "geometry functions": ("SELECT ST_AsText(c) FROM readings", "SELECT cols(last(a), ts) FROM plain"),
    "functions in C": (
        "CREATE FUNCTION f AS '/nowhere/f.so' OUTPUTTYPE INT",
        "CREATE FUNCTION f AS 'f.so' OUTPUTTYPE INT LANGUAGE 'C'",
    ),
    "views, topics, TSMA": (
        "CREATE VIEW view AS SELECT 1",
        "CREATE TOPIC topic AS SELECT ts, a FROM plain",
        "CREATE TSMA t ON plain FUNCTION(avg(a)) INTERVAL(1m)",
    ),
    "`ROLLUP`": ("CREATE STABLE r (ts TIMESTAMP, a INT) TAGS (g INT) ROLLUP(avg)",),
    "indexes": ("CREATE INDEX i ON readings (place)", "COMPACT VGROUPS IN (1)"),
    "`TRIM`": ("TRIM DATABASE d",),
    "statements about dnodes": (
        "CREATE DNODE 'host'",
        "SHOW MNODES",
        "BALANCE VGROUP",
        "SELECT * FROM information_schema.ins_dnodes",
        "SELECT * FROM performance_schema.perf_queries",
    ),
    "`GRANT SUBSCRIBE`": ("GRANT SUBSCRIBE ON topic TO root",),
    "STMT and WebSocket": (),
}
"""Statements of the rows of the table *Not supported*, by how these begin."""


def sentences(page: Path) -> Iterator[str]:
    """Yield the sentences of a page, and the rows of its tables, each on one line."""
    for paragraph in CODE.sub("", page.read_text()).split("\n\n"):
        if paragraph.startswith("|"):
            yield from paragraph.splitlines()
        elif not paragraph.startswith("#"):
            yield from SENTENCE_END.split(" ".join(paragraph.split()))


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.Connection]:
    with headrace.connect(tmp_path_factory.mktemp("refusals") / "home") as opened:
        for sql in HOME:
            opened.execute(sql)
        yield opened


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.Connection]:
    with headrace.connect(tmp_path_factory.mktemp("refusals") / "trees", dialect="iotdb") as opened:
        for sql in TREE_HOME:
            opened.execute(sql)
        yield opened


@pytest.mark.parametrize("page", PAGES)
def test_each_sentence_about_a_refusal_has_a_test(page: str) -> None:
    refusals = [text for text in sentences(REFERENCE / page) if REFUSAL.search(text)]
    assert len(refusals) > 5
    assert [text for text in refusals if not any(key in text for key in (*PLAYED, *TREES, *ELSEWHERE))] == []


def test_no_sentence_is_played_that_no_page_has() -> None:
    text = "\n".join(sentence for page in PAGES for sentence in sentences(REFERENCE / page))
    assert [key for key in (*PLAYED, *TREES, *ELSEWHERE) if key not in text] == []
    assert [name for name in ELSEWHERE.values() if not (ROOT / name).exists()] == []


def test_each_row_of_what_is_not_supported_has_statements() -> None:
    table = (REFERENCE / "differences.md").read_text().partition("\n## Not supported\n")[2]
    rows = [row.removeprefix("| ") for row in table.splitlines() if row.startswith("|")][2:]
    assert [row for row in rows if not row.startswith(tuple(NOT_SUPPORTED))] == []
    assert len(rows) == len(NOT_SUPPORTED)


@pytest.mark.parametrize("sql", [sql for played in (PLAYED, NOT_SUPPORTED) for texts in played.values() for sql in texts])
def test_what_the_reference_says_is_refused_is_refused(connection: headrace.Connection, sql: str) -> None:
    with pytest.raises(headrace.Error) as refused:
        connection.execute(sql)
    assert not isinstance(refused.value, headrace.InternalError)


@pytest.mark.parametrize("sql", [sql for texts in TREES.values() for sql in texts])
def test_what_the_reference_of_trees_says_is_refused_is_refused(trees: headrace.Connection, sql: str) -> None:
    with pytest.raises(headrace.Error) as refused:
        trees.execute(sql)
    assert not isinstance(refused.value, headrace.InternalError)
