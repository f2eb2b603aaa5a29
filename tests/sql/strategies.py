"""Hypothesis strategies for random statements of the TDengine language."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from headrace.model import access_statements as access
from headrace.model import external_statements as external
from headrace.model import statements as model
from headrace.model.access import EVERYWHERE, GLOBAL, Grantee, GranteeKind, as_pattern
from headrace.model.expressions import Call, Case, Cast, ColumnRef, DurationLiteral, Expression, Literal, Star
from headrace.model.external_tables import TIME_UNITS, ExternalFormat, OnChange
from headrace.model.functions import MAX_STATE_BYTES
from headrace.model.notifications import SUBSCRIBABLE_EVENTS, FailurePolicy, Notification
from headrace.model.queries import (
    CountClause,
    EventClause,
    FillClause,
    FillMode,
    InterpolationClause,
    IntervalClause,
    Join,
    Ordering,
    Query,
    QuerySource,
    SelectItem,
    SessionClause,
    Source,
    StateClause,
    TableSource,
    Union,
    WindowClause,
)
from headrace.model.streams import ErrorPolicy, StreamOptions, TriggerMode
from headrace.model.tables import Column, Name
from headrace.model.time import UNIT_NAMES, Duration, Precision
from headrace.model.types import DataType, TypeKind

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = st.sampled_from(
    ["a", "b1", "_wstart", "tbname", "time", "first", "count(*)", "select", "if", "ignore", "Now", "now", "a`b", "x y"]
) | text.filter(bool)
table_names = st.builds(Name, st.none() | names, names)
naturals = st.integers(0, 2**63 - 1)
durations = st.builds(Duration, st.integers(0, 200), st.sampled_from(list(UNIT_NAMES)))
numbers = st.integers(-(2**63), 2**64) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | text
OUTPUT_TYPES = (DataType(TypeKind.UBIGINT), DataType(TypeKind.DOUBLE), DataType(TypeKind.VARCHAR, 9))
SIZED = (TypeKind.VARCHAR, TypeKind.NCHAR, TypeKind.VARBINARY, TypeKind.GEOMETRY)
types = st.one_of(
    st.sampled_from([DataType(kind) for kind in TypeKind if kind not in (TypeKind.DATE, TypeKind.DECIMAL, *SIZED)]),
    st.builds(DataType, st.sampled_from(SIZED), st.integers(1, 16_000)),
    st.builds(DataType, st.just(TypeKind.DECIMAL), st.integers(10, 38), st.integers(0, 10)),
)


def _maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def _tuples(strategy: st.SearchStrategy[Any], least: int = 1, most: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, min_size=least, max_size=most).map(tuple)


# Expressions

leaves: st.SearchStrategy[Expression] = st.one_of(
    st.builds(Literal, scalars),
    st.builds(DurationLiteral, durations),
    st.builds(ColumnRef, names, _maybe(names)),
    st.sampled_from([Call("now"), Call("today"), Call("count", (Star(),)), Call("last", (Star("t"),))]),
)

BINARY = [
    "+",
    "-",
    "*",
    "/",
    "%",
    "&",
    "|",
    "->",
    "and",
    "or",
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "like",
    "not like",
    "match",
    "nmatch",
    "contains",
]


def _compounds(inside: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    pair = st.tuples(inside, inside)
    return st.one_of(
        st.builds(Call, st.sampled_from(BINARY), pair),
        st.builds(Call, st.sampled_from(["not", "unary-", "is null", "is not null"]), st.tuples(inside)),
        st.builds(Call, st.sampled_from(["between", "not between"]), st.tuples(inside, inside, inside)),
        st.builds(Call, st.sampled_from(["in", "not in"]), _tuples(inside, 2)),
        st.builds(Call, st.sampled_from(["max", "concat", "if", "first"]), _tuples(inside, 1), st.booleans()),
        st.builds(Cast, inside, types),
        st.builds(Case, _tuples(pair), _maybe(inside), _maybe(inside)),
    )


expressions = st.recursive(leaves, _compounds, max_leaves=8)


# Queries

items = st.builds(SelectItem, expressions, _maybe(names))
stars = st.sampled_from([SelectItem(Star()), SelectItem(Star("t"))])
windows: st.SearchStrategy[WindowClause] = st.one_of(
    st.builds(IntervalClause, durations, _maybe(durations), _maybe(durations)),
    st.builds(SessionClause, st.builds(ColumnRef, names, _maybe(names)), durations),
    st.builds(StateClause, expressions, _maybe(durations)),
    st.builds(EventClause, expressions, expressions, _maybe(durations)),
    st.builds(CountClause, naturals, _maybe(naturals)),
)
fills = st.one_of(
    st.builds(FillClause, st.sampled_from([FillMode.VALUE, FillMode.VALUE_F]), _tuples(expressions)),
    st.builds(FillClause, st.sampled_from([mode for mode in FillMode if mode not in (FillMode.VALUE, FillMode.VALUE_F)])),
)
interpolations = st.one_of(
    st.builds(InterpolationClause, expressions, _maybe(expressions), _maybe(durations)),
    st.builds(InterpolationClause, every=durations),
)
orderings = st.builds(Ordering, expressions, st.booleans(), _maybe(st.booleans()))


def _limits(draw: st.DrawFn) -> tuple[int | None, int | None]:
    limit = draw(_maybe(naturals))
    return limit, None if limit is None else draw(_maybe(naturals))


def _sources(queries: st.SearchStrategy[Query | Union]) -> st.SearchStrategy[Source]:
    leaf = st.builds(TableSource, table_names, _maybe(names)) | st.builds(QuerySource, queries, _maybe(names))
    kinds = st.sampled_from(["inner", "left", "right", "full", "left semi", "right semi", "left anti", "right anti"])
    asof, limits = st.sampled_from(["left asof", "right asof"]), _maybe(st.integers(1, 1024))
    return st.recursive(
        leaf,
        lambda inside: (
            st.builds(Join, inside, inside, expressions, kinds)
            | st.builds(Join, inside, inside, st.none())
            | st.builds(Join, inside, inside, _maybe(expressions), asof, limits)
        ),
        max_leaves=4,
    )


@st.composite
def _queries(draw: st.DrawFn, sources: st.SearchStrategy[Source]) -> Query:
    limit, offset = _limits(draw)
    series_limit, series_offset = _limits(draw)
    return Query(
        draw(_tuples(items | stars)),
        draw(_maybe(sources)),
        draw(_maybe(expressions)),
        draw(_tuples(items, 0)),
        draw(_maybe(windows)),
        draw(_maybe(fills)),
        draw(_maybe(interpolations)),
        draw(_tuples(st.builds(SelectItem, expressions), 0)),
        draw(_maybe(expressions)),
        draw(_tuples(orderings, 0)),
        limit,
        offset,
        series_limit,
        series_offset,
        draw(st.booleans()),
    )


@st.composite
def _unions(draw: st.DrawFn, inside: st.SearchStrategy[Query | Union]) -> Union:
    limit, offset = _limits(draw)
    return Union(draw(inside), draw(inside), draw(st.booleans()), draw(_tuples(orderings, 0)), limit, offset)


simple_queries = _queries(st.builds(TableSource, table_names, _maybe(names)))
queries: st.SearchStrategy[Query | Union] = st.recursive(
    simple_queries,
    lambda inside: _unions(inside) | _queries(_sources(inside)),
    max_leaves=3,
)


# Tables and rows

columns = st.builds(Column, names, types, comment=_maybe(text))
tag_values = _tuples(st.builds(model.TagValue, scalars))
row_values = scalars | st.builds(model.Now, st.integers(-(10**20) + 1, 10**20 - 1), st.booleans())
OPTION_VALUES = {
    "vgroups": naturals.map(str),
    "cachemodel": text,
    "keep": durations.filter(lambda duration: not duration.is_calendar).map(str),
    "wal_retention_period": st.integers().map(str),
}


@st.composite
def _subtables(
    draw: st.DrawFn,
    if_not_exists: st.SearchStrategy[bool],
    name: Name | None = None,
    max_ttl_days: int = 0,
) -> model.SubtableSpec:
    values = draw(tag_values)
    tag_names, ttl_days = draw(_maybe(_tuples(names, len(values), len(values)))), draw(st.integers(0, max_ttl_days))
    return model.SubtableSpec(name or draw(table_names), draw(table_names), values, tag_names, draw(if_not_exists), ttl_days)


@st.composite
def _tables(draw: st.DrawFn) -> model.CreateTable:
    first, *rest = draw(_tuples(columns))
    keyed = [Column(rest[0].name, rest[0].type, draw(st.booleans()), rest[0].comment), *rest[1:]] if rest else []
    tags = draw(_tuples(columns, 0))
    ttl_days = 0 if tags else draw(st.integers(0, 5))
    return model.CreateTable(draw(table_names), (first, *keyed), tags, draw(st.booleans()), draw(_maybe(text)), ttl_days=ttl_days)


external_columns = st.builds(external.ExternalColumn, names, _maybe(types), _tuples(names, 0))
external_tables = st.builds(
    external.CreateExternalTable,
    table_names,
    _tuples(external_columns),
    _tuples(external_columns, 0),
    text,
    format=st.sampled_from(ExternalFormat),
    timezone=_maybe(text),
    unit=_maybe(st.sampled_from(list(TIME_UNITS))),
    on_change=_maybe(st.sampled_from(OnChange)),
    comment=_maybe(text),
    if_not_exists=st.booleans(),
).flatmap(lambda one: st.just(one) if not one.tags else _tuples(names, 0).map(lambda series: replace(one, series=series)))
external_tables = external_tables | st.builds(
    lambda one, catalog: replace(one, location="", catalog=catalog, format=ExternalFormat.ICEBERG),
    external_tables,
    _tuples(names, 3, 4),
)
origins = st.builds(model.Origin, table_names, names)
virtual_columns = columns.map(lambda column: Column(column.name, column.type))


@st.composite
def _virtual_tables(draw: st.DrawFn) -> model.CreateVirtualTable:
    declared = draw(_tuples(st.tuples(virtual_columns, _maybe(origins))))
    names_of_columns, origins_of_columns = zip(*declared, strict=True)
    return model.CreateVirtualTable(draw(table_names), names_of_columns, origins_of_columns, draw(st.booleans()))


@st.composite
def _blocks(draw: st.DrawFn) -> model.InsertBlock:
    table = draw(table_names)
    using = draw(_maybe(_subtables(st.just(True), table)))
    return model.InsertBlock(table, draw(_tuples(_tuples(row_values))), draw(_maybe(_tuples(names))), using)


@st.composite
def _file_blocks(draw: st.DrawFn) -> model.FileBlock:
    table = draw(table_names)
    using = draw(_maybe(_subtables(st.just(True), table)))
    return model.FileBlock(table, draw(text), draw(_maybe(_tuples(names))), using)


# Streams


@st.composite
def _options(draw: st.DrawFn) -> StreamOptions:
    trigger = draw(st.sampled_from(TriggerMode))
    fill_history = draw(st.booleans())
    return StreamOptions(
        trigger,
        draw(durations) if trigger is TriggerMode.MAX_DELAY else None,
        draw(_maybe(durations)) if trigger is TriggerMode.CONTINUOUS_WINDOW_CLOSE else None,
        draw(durations),
        draw(st.booleans()),
        draw(st.booleans()),
        fill_history,
        fill_history and draw(st.booleans()),
        draw(_maybe(durations)),
        draw(_maybe(durations)),
        draw(st.sampled_from(ErrorPolicy)),
    )


@st.composite
def _target_columns(draw: st.DrawFn) -> tuple[model.TargetColumn, ...]:
    columns = draw(_tuples(names))
    return tuple(model.TargetColumn(name, position == 1 and draw(st.booleans())) for position, name in enumerate(columns))


target_tags = _tuples(columns.map(lambda column: model.TargetTag(column, column.name))) | _tuples(
    names.map(lambda name: model.TargetTag(None, name))
)
notifications = st.builds(
    Notification,
    st.lists(st.sampled_from(["ws://localhost:8080/a?b=c", "wss://[::1]/its", "HTTPS://h/a"]), min_size=1, unique=True).map(tuple),
    st.lists(st.sampled_from(SUBSCRIBABLE_EVENTS), min_size=1, unique=True).map(tuple),
    st.sampled_from(FailurePolicy),
    st.booleans(),
)
streams = st.builds(
    model.CreateStream,
    table_names,
    table_names,
    _queries(_sources(simple_queries)),
    _options(),
    _maybe(_target_columns()),
    _maybe(target_tags),
    _maybe(expressions),
    _maybe(notifications),
    st.booleans(),
)

# Statements

databases = names.map(lambda name: Name(None, name))
shows = st.one_of(
    st.builds(model.Show, st.just("databases"), like=_maybe(text)),
    st.builds(
        model.Show,
        st.sampled_from(["stables", "tables", "vtables", "child vtables", "streams"]),
        database=_maybe(names),
        like=_maybe(text),
    ),
    st.builds(
        model.Show, st.sampled_from(["tags", "create table", "create stable", "create vtable", "create stream"]), table_names
    ),
)
plain_statements: st.SearchStrategy[model.Statement] = st.one_of(
    st.builds(
        model.CreateDatabase,
        databases,
        st.booleans(),
        st.sampled_from(Precision),
        st.fixed_dictionaries({}, optional=OPTION_VALUES).map(lambda options: tuple(options.items())),
    ),
    st.builds(
        model.AlterDatabase,
        databases,
        st.fixed_dictionaries({"keep": OPTION_VALUES["keep"]}, optional={"cachemodel": text}).map(
            lambda options: tuple(options.items())
        ),
    ),
    external_tables,
    st.builds(model.MaintainDatabase, databases, st.just(False)),
    st.builds(model.MaintainDatabase, databases, st.just(True), *([st.none() | text | st.integers(0, 2**50)] * 2)),
    st.builds(model.DropDatabase, databases, st.booleans()),
    st.builds(model.UseDatabase, databases),
    _tables(),
    st.builds(model.CreateSubtables, _tuples(_subtables(st.booleans(), max_ttl_days=5))),
    st.builds(model.CreateSubtablesFromFile, table_names, _tuples(names), text, st.booleans()),
    _virtual_tables(),
    st.builds(model.CreateVirtualSubtable, _subtables(st.booleans()), _tuples(st.tuples(_maybe(names), origins))),
    st.builds(model.AlterVirtualTable, st.builds(model.AddColumn, table_names, virtual_columns), _maybe(origins)),
    st.builds(model.AlterVirtualTable, st.builds(model.RenameColumn, table_names, names, names)),
    st.builds(model.SetOrigin, table_names, names, _maybe(origins)),
    st.builds(model.Delete, table_names, _maybe(expressions)),
    st.builds(model.DropTable, _tuples(table_names), st.booleans(), st.booleans()),
    st.builds(model.AddColumn, table_names, columns, st.booleans(), st.booleans()),
    st.builds(model.DropColumn, table_names, names, st.booleans(), st.booleans()),
    st.builds(model.ModifyColumn, table_names, columns, st.booleans(), st.booleans()),
    st.builds(model.RenameColumn, table_names, names, names, st.booleans(), st.booleans()),
    st.builds(model.SetTableOptions, table_names, text, st.booleans()),
    st.builds(model.SetTableOptions, table_names, _maybe(text), st.just(True), st.just(0)),
    st.builds(model.SetTableOptions, table_names, _maybe(text), st.just(False), st.integers(0, 5)),
    st.builds(model.SetTags, table_names, _tuples(st.tuples(names, st.builds(model.TagValue, scalars)))),
    st.builds(model.Describe, table_names),
    shows,
    st.builds(model.Select, queries),
    streams,
    st.builds(
        model.AlterStream,
        table_names,
        durations,
        _maybe(st.booleans()),
        _maybe(st.booleans()),
        _maybe(durations),
        _maybe(st.sampled_from(ErrorPolicy)),
        st.booleans(),
    ),
    st.builds(model.ResetStream, table_names, st.booleans()),
    st.builds(model.ReplayStream, table_names, st.booleans()),
    st.builds(model.DropQuarantine, table_names, st.booleans()),
    st.builds(model.CreateSnode, st.integers(1, 1000)),
    st.builds(model.DropSnode, st.integers(1, 1000)),
    st.builds(model.KillQuery, st.sampled_from(["1:2", "it's"])),
    st.builds(
        model.CreateModuleFunction,
        names,
        text,
        st.sampled_from(OUTPUT_TYPES),
        st.booleans(),
        st.integers(0, MAX_STATE_BYTES),
        st.just(False),
        st.booleans(),
    ),
    st.builds(model.CreateModuleFunction, names, text, st.sampled_from(OUTPUT_TYPES), if_not_exists=st.booleans()),
    st.builds(model.DropModuleFunction, names, st.booleans()),
    st.builds(model.DropStream, table_names, st.booleans()),
    st.builds(model.PauseStream, table_names, st.booleans()),
    st.builds(model.ResumeStream, table_names, st.booleans(), st.booleans()),
)
parts = st.tuples(names, names | st.just("*")) | st.just(("*", "*"))
people = st.one_of(
    st.builds(access.CreateUser, names, text),
    st.builds(access.AlterUser, names, text) | st.builds(access.AlterUser, names, is_enabled=st.booleans()),
    st.builds(access.DropUser, names),
    parts.flatmap(
        lambda level: st.builds(
            access.GrantTables, _tuples(st.sampled_from(["ALL", "READ", "WRITE"])), *map(st.just, level), names, st.booleans()
        )
    ),
    st.builds(
        access.GrantPrivileges,
        _tuples(st.sampled_from([one.value for one in GLOBAL])),
        st.just((as_pattern(EVERYWHERE),)),
        names.map(lambda name: Grantee(GranteeKind.USER, name)),
        revoke=st.booleans(),
    ),
)
statements: st.SearchStrategy[model.Statement] = st.one_of(
    plain_statements,
    people,
    st.builds(model.Insert, _tuples(_blocks())),
    st.builds(model.InsertFiles, _tuples(_file_blocks())),
    st.builds(model.InsertSelect, table_names, queries, _maybe(_tuples(names))),
    st.builds(lambda statement, level: model.Explain(statement, level > 0, level > 1), plain_statements, st.integers(0, 2)),
)
