"""Checks of a stream's definition before anything is created."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.catalog.jobs import Jobs
from headrace.catalog.tables import Tables
from headrace.compute import Language, Relation
from headrace.compute.functions.aggregates import StreamUse
from headrace.compute.functions.series import SeriesFunction
from headrace.compute.tdengine import TDENGINE
from headrace.errors import (
    Error,
    ExistsError,
    InvalidStreamError,
    LimitError,
    NotFoundError,
    NotSupportedError,
    ProgrammingError,
    TypeMismatchError,
)
from headrace.model.statements import CreateStream
from headrace.model.tables import Column, Database, Table, TableKind
from headrace.model.types import DataType, TypeKind
from headrace.sql import parse
from headrace.streams.definition.checks import check_statement
from headrace.streams.definition.define import plan_recorded_stream
from headrace.streams.definition.groups import GroupKind
from headrace.streams.kind import STREAM
from tests.streams.environment import StreamEnvironment

INT, VARCHAR, TIMESTAMP = DataType(TypeKind.INT), DataType(TypeKind.VARCHAR, 20), DataType(TypeKind.TIMESTAMP)
OLD = Table(
    "db",
    "old",
    (Column("ts", TIMESTAMP), Column("n", INT), Column("m", INT)),
    (Column("g", VARCHAR), Column("h", INT)),
)
PLAIN = Table("db", "plain", (Column("ts", TIMESTAMP), Column("n", INT)), (), TableKind.PLAIN)
KEYED = Table("db", "keyed", (Column("ts", TIMESTAMP), Column("k", INT, is_key=True), Column("n", INT)), (Column("g", INT),))


@pytest.fixture
def env_with_targets(offline_env: StreamEnvironment) -> StreamEnvironment:
    for table in (OLD, PLAIN, KEYED):
        offline_env.catalog.tables.create(table)
        offline_env.tables.create(table, offline_env.database)
    return offline_env


REFUSED = [
    ("create stream s into out as select ts, a from readings partition by tbname", InvalidStreamError, "AT_ONCE"),
    ("create stream s trigger at_once into out as select ts, a from readings", InvalidStreamError, "mixes its subtables"),
    ("create stream s trigger at_once into out as select a, ts from readings partition by tbname", InvalidStreamError, "timestamp"),
    ("create stream s trigger at_once into out as select ts, count(*) from d0", Error, ""),
    (
        "create stream s trigger at_once into out as select ts, n from keyed partition by tbname",
        InvalidStreamError,
        "the key of keyed",
    ),
    ("create stream s into out as select count(*) from readings interval(1s) order by 1", InvalidStreamError, "ORDER BY"),
    ("create stream s into out as select count(*) from readings interval(1s) limit 3", InvalidStreamError, "LIMIT"),
    ("create stream s into out as select count(*) from readings interval(1s) having count(*) > 1", InvalidStreamError, "HAVING"),
    (
        "create stream s trigger at_once into out as select ts from readings partition by tbname group by a",
        InvalidStreamError,
        "GROUP BY",
    ),
    ("create stream s into out as select count(*) from (select ts, a from readings) interval(1s)", InvalidStreamError, "one table"),
    (
        "create stream s into out as select irate(a) from readings partition by g interval(1s)",
        InvalidStreamError,
        "irate over the supertable",
    ),
    ("create stream s into out as select rate(a) from readings session(ts, 1s)", InvalidStreamError, "rate over the supertable"),
    ("create stream s into out as select twa(a) from readings interval(1s)", InvalidStreamError, "FORCE_WINDOW_CLOSE"),
    (
        "create stream s into out subtable(concat('x', tbname)) as select count(*) from readings interval(1s)",
        InvalidStreamError,
        "tbname",
    ),
    (
        "create stream s into out subtable(concat('x', b)) as select count(*) from readings partition by tbname interval(1s)",
        NotFoundError,
        "not in PARTITION BY",
    ),
    (
        "create stream s into out subtable(a) as select count(*) from readings partition by a interval(1s)",
        TypeMismatchError,
        "not a string",
    ),
    ("create stream s into out tags(x int) as select count(*) from readings partition by a interval(1s)", NotFoundError, "x"),
    (
        "create stream s into out tags(a) as select count(*) from readings partition by a interval(1s)",
        InvalidStreamError,
        "no type",
    ),
    (
        "create stream s into out(x) as select count(*), max(a) from readings interval(1s)",
        InvalidStreamError,
        "the column list has 1 columns",
    ),
    ("create stream s into out as select max(a) x, min(a) x from readings interval(1s)", ExistsError, "two columns"),
    (
        "create stream s into out tags(x int) as select max(a) x from readings partition by g x interval(1s)",
        ExistsError,
        "two columns",
    ),
    (
        "create stream s into out(x, y primary key) as select max(a), min(a) from readings interval(1s)",
        InvalidStreamError,
        "second",
    ),
    ("create stream s into out(x, y primary key) as select _wstart, avg(a) from readings interval(1s)", TypeMismatchError, "key"),
    ("create stream s into plain as select _wstart, count(*) from readings interval(1s)", InvalidStreamError, "supertable"),
    ("create stream s into d0 as select _wstart, count(*) from readings interval(1s)", InvalidStreamError, "supertable"),
    ("create stream s into old as select _wstart, count(*) from readings interval(1s)", InvalidStreamError, "columns"),
    ("create stream s into old(ts, x) as select _wstart, count(*) from readings interval(1s)", NotFoundError, "no column x"),
    ("create stream s into old(n, m) as select _wstart, count(*) from readings interval(1s)", InvalidStreamError, "ts"),
    ("create stream s into old tags(g int) as select _wstart, 1, 2 from readings interval(1s)", ExistsError, "exists"),
    (
        "create stream s into old tags(x) as select _wstart, 1, 2 from readings partition by g x interval(1s)",
        NotFoundError,
        "tag x",
    ),
    ("create stream s into old as select _wstart, 1, 2 from readings partition by g interval(1s)", InvalidStreamError, "TAGS"),
    ("create stream s into keyed(ts, n) as select _wstart, count(*) from readings interval(1s)", InvalidStreamError, "k"),
    ("create stream s trigger max_delay 4s into out as select count(*) from readings interval(1s)", LimitError, "5s"),
    ("create stream s watermark 1n into out as select count(*) from readings interval(1s)", LimitError, "WATERMARK"),
    ("create stream s into out as select count(*) from readings interval(10s) sliding(11s)", LimitError, "sliding"),
    ("create stream s into out as select count(*) from readings state_window(a)", InvalidStreamError, "mixes its subtables"),
    (
        "create stream s into out as select count(*) from readings event_window start with a = 1 end with a = 2",
        InvalidStreamError,
        "mixes",
    ),
    ("create stream s watermark 1s into out as select count(*) from readings count_window(3)", InvalidStreamError, "mixes"),
    ("create stream s into out as select count(*) from d0 count_window(3)", InvalidStreamError, "WATERMARK"),
    (
        "create stream s watermark 1s ignore expired 0 into out as select count(*) from d0 count_window(3)",
        InvalidStreamError,
        "EXPIRED",
    ),
    (
        "create stream s into out as select count(*) from keyed partition by tbname state_window(n)",
        InvalidStreamError,
        "a state window is not supported over keyed: its primary key includes k",
    ),
    (
        "create stream s trigger continuous_window_close recalculate 599s into out as select count(*) from readings interval(1s)",
        LimitError,
        "RECALCULATE 599s is shorter than 600s",
    ),
    (
        "create stream s trigger continuous_window_close recalculate 1n into out as select count(*) from readings interval(1s)",
        LimitError,
        "RECALCULATE may not be in months or years, as 1n is",
    ),
    (
        "create stream s trigger continuous_window_close into out as select count(*) from readings session(ts, 1s)",
        InvalidStreamError,
        "CONTINUOUS_WINDOW_CLOSE needs INTERVAL",
    ),
    (
        "create stream s trigger force_window_close into out as select count(*) from readings interval(1s)",
        InvalidStreamError,
        "mixes its subtables",
    ),
    (
        "create stream s trigger force_window_close into out as select count(*) from d0 session(ts, 1s)",
        InvalidStreamError,
        "FORCE_WINDOW_CLOSE needs INTERVAL",
    ),
    (
        "create stream s trigger force_window_close into out as select twa(a) from d0 state_window(a)",
        InvalidStreamError,
        "twa in a stream needs INTERVAL",
    ),
    (
        "create stream s trigger force_window_close into out as select count(*) from d0 interval(1s) fill(next)",
        InvalidStreamError,
        "the next row is not known",
    ),
    ("create stream s trigger force_window_close into out as select ts, a from d0", InvalidStreamError, "AT_ONCE"),
    (
        "create stream s trigger at_once into out as select _irowts, interp(a) from d0 every(1s)",
        InvalidStreamError,
        "interp in a stream needs TRIGGER FORCE_WINDOW_CLOSE",
    ),
    (
        "create stream s trigger force_window_close into out as select _irowts, interp(a) from readings every(1s)",
        InvalidStreamError,
        "mixes its subtables",
    ),
    (
        "create stream s trigger force_window_close into out as select _irowts, interp(a) from d0 range(1, 2) every(1s)",
        InvalidStreamError,
        "no RANGE",
    ),
    (
        "create stream s trigger force_window_close into out as select interp(a) from d0 every(1s)",
        InvalidStreamError,
        "the first column",
    ),
    ("create stream s into out as select count(*) from readings session(ts, 1s) fill(null)", ProgrammingError, "INTERVAL"),
    ("create stream s into keyed(ts, k) as select _wstart, last(a) from readings interval(1s) fill(null)", InvalidStreamError, "k"),
    ("create stream s into out as select count(*) from readings interval(1s) fill(near)", NotSupportedError, "NEAR"),
    ("create stream s into out as select count(*), sum(a) from readings interval(1s) fill(value, 1)", ProgrammingError, "1 values"),
    ("create stream s into out as select count(*) from nowhere interval(1s)", NotFoundError, "nowhere"),
    ("create stream s into out as select count(x) from readings interval(1s)", NotFoundError, "x"),
    ("create stream s into nodb.out as select count(*) from readings interval(1s)", NotFoundError, "nodb"),
]


@pytest.mark.parametrize(("sql", "kind", "part"), REFUSED)
def test_an_invalid_stream_is_rejected_with_the_reason(
    env_with_targets: StreamEnvironment, sql: str, kind: type[Error], part: str
) -> None:
    with pytest.raises(kind) as refused:
        env_with_targets.define(sql)
    assert part in str(refused.value)
    assert not any(table.name == "out" for table in env_with_targets.catalog.tables.all("db"))


@pytest.mark.parametrize(
    ("select", "names"),
    [
        ("_wstart, count(*), max(a) top", ["_wstart", "count(*)", "top"]),
        ("_wstart c1, count(*) c2", ["c1", "c2"]),
        ("count(*)", ["_wstart", "count(*)"]),
        ("count(*), _wstart", ["ts", "count(*)", "_wstart"]),
        ("count(*) ts, _wstart", ["_wstart_1", "ts", "_wstart"]),
    ],
)
def test_the_target_has_the_columns_of_the_select_list_after_the_windows_start(
    env_with_targets: StreamEnvironment, select: str, names: list[str]
) -> None:
    plan = env_with_targets.define(f"create stream s into out as select {select} from readings interval(1s)")
    assert [column.name for column in plan.target.columns] == names
    assert plan.target.timestamp.type.kind is TypeKind.TIMESTAMP
    assert [(tag.name, tag.type.kind) for tag in plan.target.tags] == [("group_id", TypeKind.UBIGINT)]


def test_a_column_list_names_the_select_list_and_marks_the_key(env_with_targets: StreamEnvironment) -> None:
    plan = env_with_targets.define("create stream s into out(x, y) as select count(*), max(a) from readings interval(1s)")
    assert [column.name for column in plan.target.columns] == ["_wstart", "x", "y"]
    keyed = env_with_targets.define(
        "create stream s into out(x, y composite key, z) as select _wstart, max(a), count(*) from readings interval(1s)"
    )
    assert keyed.target.key is not None
    assert keyed.target.key.name == "y"


def test_an_existing_table_is_filled_by_position_or_by_the_column_list(env_with_targets: StreamEnvironment) -> None:
    plan = env_with_targets.define(
        "create stream s into old tags(h) as select _wstart, count(*), max(a) from readings partition by g h interval(1s)"
    )
    assert plan.columns == ("ts", "n", "m")
    assert [(tag.name, tag.column is None) for tag in plan.groups.tags] == [("g", True), ("h", False)]
    listed = env_with_targets.define(
        "create stream s into old(m, n) tags(g) as select count(*), max(a) from d0 partition by tbname g interval(1s)"
    )
    assert listed.columns == ("ts", "m", "n")


@pytest.mark.parametrize(
    ("partition", "kind"),
    [
        ("", GroupKind.ONE),
        ("partition by tbname", GroupKind.SUBTABLE),
        ("partition by tbname, g", GroupKind.VALUES),
        ("partition by a", GroupKind.VALUES),
    ],
)
def test_a_group_is_named_by_nothing_its_subtable_or_its_values(
    env_with_targets: StreamEnvironment, partition: str, kind: GroupKind
) -> None:
    plan = env_with_targets.define(f"create stream s into out as select count(*) from readings {partition} interval(1s)")
    assert plan.groups.kind is kind


def test_two_streams_cannot_fill_one_table(env_with_targets: StreamEnvironment) -> None:
    env_with_targets.create("create stream s into out as select count(*) from readings interval(1s)")
    with pytest.raises(InvalidStreamError, match="writes to out already"):
        env_with_targets.define("create stream t into out as select count(*) from readings interval(1s)")


def test_the_number_of_streams_on_a_database_is_limited(env_with_targets: StreamEnvironment) -> None:
    for number in range(61):
        plan = env_with_targets.define(f"create stream s{number} into out{number} as select count(*) from readings interval(1s)")
        env_with_targets.catalog.jobs.create(plan.definition(created=0), target=plan.target)
    one_more = "create stream t into out as select count(*) from readings interval(1s)"
    with pytest.raises(LimitError, match="61 streams"):
        env_with_targets.define(one_more)
    assert env_with_targets.define(one_more, max_streams=62).name == "t"
    replaced = env_with_targets.catalog.jobs.get(env_with_targets.database.name, "s7", STREAM).definition
    assert env_with_targets.define(one_more, replaced=replaced).name == "t"


def test_defining_a_stream_takes_no_longer_if_there_are_others(
    env_with_targets: StreamEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = "create stream s into out as select count(*) from readings interval(1s)"
    definition = env_with_targets.record(env_with_targets.create(sql)).definition
    for listing in (Jobs, Tables):
        monkeypatch.delattr(listing, "all")
    assert env_with_targets.define(sql.replace("into out", "into another")).target.name == "another"
    assert plan_recorded_stream(definition, env_with_targets.catalog).target.name == "out"


@pytest.mark.parametrize(
    "sql",
    [
        "create stream s into out as select count(*), _wstart from readings partition by tbname interval(1s)",
        "create stream s into out(x, y) tags(t varchar(9)) subtable(concat('x', t)) as select _wstart, sum(a) "
        "from readings partition by b t interval(1s)",
        "create stream s into old tags(h) as select _wstart, count(*), max(a) from readings partition by g h interval(1s)",
        "create stream s trigger at_once into out as select ts, a, b from d0",
    ],
)
def test_a_recorded_stream_has_the_plan_it_was_defined_with(env_with_targets: StreamEnvironment, sql: str) -> None:
    defined = env_with_targets.define(sql)
    recorded = env_with_targets.create(sql)
    assert recorded.query == defined.query
    assert (recorded.target, recorded.columns, recorded.groups) == (defined.target, defined.columns, defined.groups)
    assert plan_recorded_stream(env_with_targets.record(recorded).definition, env_with_targets.catalog).id == recorded.id


def test_errors_of_a_recorded_stream_show_its_text(env_with_targets: StreamEnvironment) -> None:
    plan = env_with_targets.create("create stream s into out as select count(*) from old interval(1s)")
    definition = env_with_targets.record(plan).definition
    env_with_targets.catalog.jobs.drop(plan.id)
    env_with_targets.catalog.tables.drop("db", "old")
    with pytest.raises(NotFoundError) as missing:
        plan_recorded_stream(definition, env_with_targets.catalog)
    assert missing.value.sql == definition.sql


def check(sql: str, language: Language, table: Table = OLD) -> None:
    """Check a statement as if it were one of a language, over one table."""
    statement = parse(sql)
    assert isinstance(statement, CreateStream)
    check_statement(statement, Relation(table, Database("db")), language)


def test_the_table_of_functions_says_which_of_them_a_stream_may_call() -> None:
    csum = TDENGINE.functions["csum"]
    assert isinstance(csum, SeriesFunction)
    sql = "create stream s trigger at_once into out as select ts, my_sum(n) from old partition by tbname"

    with pytest.raises(InvalidStreamError, match="my_sum is not supported in a stream"):
        check(sql, TDENGINE.with_functions(replace(csum, name="my_sum")))
    with pytest.raises(InvalidStreamError, match="my_sum in a stream needs TRIGGER FORCE_WINDOW_CLOSE"):
        check(sql, TDENGINE.with_functions(replace(csum, name="my_sum", streams=StreamUse.FORCED_CLOSE)))
    check(sql, TDENGINE.with_functions(replace(csum, name="my_sum", streams=StreamUse.ANY)))


ONLY_QUERIES = "bottom csum derivative diff elapsed histogram mavg sample statecount stateduration tail top twa unique"


@pytest.mark.parametrize("name", ONLY_QUERIES.split())
def test_functions_of_the_language_that_no_stream_calls_yet(name: str) -> None:
    with pytest.raises(InvalidStreamError, match=rf"\] {name} (is not supported in a stream|in a stream needs TRIGGER)"):
        check(f"create stream s into out as select {name}(n) from old partition by tbname interval(1s)", TDENGINE)


def test_the_clock_closes_no_windows_of_virtual_tables() -> None:
    sql = "create stream s trigger force_window_close into out as select count(*) from old partition by tbname interval(1s)"
    check(sql, TDENGINE)
    with pytest.raises(NotSupportedError, match="virtual table old"):
        check(sql, TDENGINE, replace(OLD, is_virtual=True))


def test_the_series_of_a_tree_are_told_apart_by_its_own_series_key() -> None:
    tree = Table("db", "tree", (Column("time", TIMESTAMP), Column("n", INT)), kind=TableKind.TREE)
    language = replace(TDENGINE, pseudo_columns=replace(TDENGINE.pseudo_columns, series=""))
    sql = "create stream s into out as select count(*) from tree{} state_window(n)"

    check(sql.format(" partition by device"), language, tree)
    with pytest.raises(InvalidStreamError, match="mixes its subtables") as mixed:
        check(sql.format(" partition by tbname"), language, tree)
    assert mixed.value.hint == "add PARTITION BY device"


@pytest.mark.parametrize(
    ("sql", "marked"),
    [
        ("watermark 0s into out as select count(*) from old partition by tbname count_window(5)", "0s"),
        ("watermark 1s ignore expired 0 into out as select count(*) from old partition by tbname count_window(5)", "0"),
        ("into out as select count(*) from old state_window(n)", "state_window(n)"),
        (
            "into out as select count(*) from old event_window start with n > 1 end with n > 2",
            "event_window start with n > 1 end with n > 2",
        ),
        ("into out as select count(*) from old interval(1s) order by 1 desc", "order by 1 desc"),
        ("into out as select count(*) from old interval(1s) order by n limit 2, 3", "order by n"),
        ("into out as select count(*) from old interval(1s) limit 2, 3", "limit 2, 3"),
        ("into out as select count(*) from old partition by n interval(1s) slimit 2 soffset 1", "slimit 2 soffset 1"),
        ("into out as select distinct n from old interval(1s)", "distinct"),
        ("into out as (select count(*) from old interval(1s)) limit 2", "limit 2"),
        ("into out as select count(*) from old interval(1s) group by n", "group by n"),
    ],
)
def test_an_error_points_to_the_option_or_clause_that_is_wrong(env_with_targets: StreamEnvironment, sql: str, marked: str) -> None:
    statement = f"create stream s trigger at_once {sql}"
    with pytest.raises(InvalidStreamError) as refused:
        env_with_targets.create(statement)
    assert refused.value.span is not None
    assert statement[refused.value.span.start : refused.value.span.end] == marked
