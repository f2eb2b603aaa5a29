"""Statements made at random, as hypothesis strategies: what the IoTDB language can say, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from headrace.model import access_statements as access
from headrace.model import external_statements as external
from headrace.model import tree_queries as queries
from headrace.model import tree_statements as model
from headrace.model.access import Grantee, GranteeKind
from headrace.model.expressions import Call, Case, Cast, ColumnRef, DurationLiteral, Expression, Literal
from headrace.model.external_tables import TIME_UNITS, ExternalFormat, OnChange
from headrace.model.paths import PathPattern, join_path, quote_node
from headrace.model.pipe_plugin_statements import CreatePipePlugin, DropPipePlugin
from headrace.model.pipes import PipeStage
from headrace.model.queries import SelectItem
from headrace.model.statements import Explain
from headrace.model.tables import Name
from headrace.model.time import Duration
from headrace.model.tree_types import TREE_TYPES
from headrace.model.trees import TREE_TABLE
from headrace.model.triggers import TriggerEvent, TriggerType
from headrace.model.types import TIMESTAMP
from headrace.model.values import Now
from headrace.sql.iotdb.access import PRIVILEGES
from headrace.sql.iotdb.expressions import is_constant
from headrace.sql.iotdb.words import COMPRESSIONS, ENCODINGS, UNITS

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = st.sampled_from(
    ["a", "b1", "1a", "time", "root", "last", "from", "null", "not", "case", "now", "and", "device", "values", "a`b", "x.y", "12"]
) | text.filter(bool)
nodes = names.map(quote_node)
wildcards = st.sampled_from(["*", "**", "s*", "*s", "*s*", "1*"])
naturals = st.integers(0, 2**31 - 1)
positives = st.integers(1, 2**31 - 1)
durations = st.builds(Duration, st.integers(0, 200), st.sampled_from(list(UNITS.values())))
compounds = st.lists(st.builds(Duration, st.integers(1, 200), st.sampled_from(list(UNITS.values()))), min_size=1, max_size=3).map(
    tuple
)
numbers = st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.booleans() | numbers | text | st.binary(max_size=4)


def _maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def _tuples(strategy: st.SearchStrategy[Any], least: int = 1, most: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, min_size=least, max_size=most).map(tuple)


def _path(node: st.SearchStrategy[str], least: int) -> st.SearchStrategy[PathPattern]:
    return st.lists(node, min_size=least, max_size=4).map(lambda found: PathPattern(("root", *found)))


paths = _path(nodes, 2)
patterns = _path(nodes | wildcards, 1)
pairs = st.lists(st.tuples(names, text), min_size=1, max_size=3, unique_by=lambda pair: pair[0]).map(tuple)

# Expressions

instants = st.sampled_from(["2017-11-01", "2017-11-01T00:05:00.000+08:00", "2017-01-02 03:04:05"]).map(
    lambda text: Cast(Literal(text), TIMESTAMP)
)
columns = _tuples(nodes | wildcards).map(lambda found: ColumnRef(join_path(found)))
moments = st.just(Call("now")) | instants
shifted = st.builds(
    lambda moment, sign, duration: Call(sign, (moment, DurationLiteral(duration))), moments, st.sampled_from("+-"), durations
)
leaves: st.SearchStrategy[Expression] = st.one_of(
    st.builds(Literal, scalars), columns, moments, shifted, st.just(ColumnRef("time"))
)
BINARY = ["+", "-", "*", "/", "%", "and", "or", "=", "<>", "<", "<=", ">", ">="]
functions = st.sampled_from(["top_k", "f x", "sin", "last", "case", "null", "my_function"])


def _is_attribute(argument: Expression) -> bool:
    """Whether a function takes this argument for an attribute, also in parentheses."""
    match argument:
        case Call(function="=", arguments=(Literal(value=key), _)):
            return not isinstance(key, bytes)
    return False


def _calls(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    arguments = _tuples(inner.filter(lambda found: not _is_attribute(found)), 0)
    choices = _tuples(st.builds(Literal, scalars) | instants)
    return st.one_of(
        st.builds(lambda f, a, b: Call(f, (a, b)), st.sampled_from(BINARY), inner, inner),
        st.builds(lambda f, a: Call(f, (a,)), st.sampled_from(["not", "unary-", "is null", "is not null"]), inner),
        st.builds(lambda f, a, b, c: Call(f, (a, b, c)), st.sampled_from(["between", "not between"]), inner, inner, inner),
        st.builds(lambda f, a, b: Call(f, (a, *b)), st.sampled_from(["in", "not in"]), inner, choices),
        st.builds(lambda f, a, b: Call(f, (a, Literal(b))), st.sampled_from(["like", "not like", "match", "nmatch"]), inner, text),
        st.builds(lambda f, a, b, c: Call(f, (a, *b), False, c), functions, columns, arguments, pairs),
        st.builds(lambda a, b, c: Call("replace", (a, Literal(b), Literal(c))), inner, text, text),
        st.builds(lambda a, b: Call("round", (a, Literal(b))), inner, st.integers(-5, 5)),
        st.builds(lambda a, b: Call("substring", (a, *map(Literal, b))), inner, _tuples(st.integers(-5, 5), 1, 2)),
        st.builds(Cast, inner.filter(lambda found: not is_constant(found)), st.sampled_from(list(TREE_TYPES.values()))),
        st.builds(Case, _tuples(st.tuples(inner, inner)), _maybe(inner), _maybe(inner)),
    )


expressions = st.recursive(leaves, _calls, max_leaves=8)

# Queries

times = instants | st.integers(-(2**63), 2**63).map(Literal) | st.just(Call("now"))
ranges = st.builds(queries.TimeRange, st.integers(-9, 0).map(Literal) | instants, st.integers(1, 9).map(Literal), st.booleans())
series = st.builds(lambda name: Call("sin", (name,)), columns) | columns
row_groups = st.one_of(
    st.builds(queries.GroupByVariation, series, st.floats(0, 9), st.booleans()),
    st.builds(
        queries.GroupByCondition,
        series,
        st.tuples(st.sampled_from([">", ">=", "=", "<", "<=", "<>"]), naturals),
        st.booleans(),
    ),
    st.builds(queries.GroupBySession, compounds),
    st.builds(queries.GroupByCount, series, naturals, st.booleans()),
)
levels = st.builds(tuple, st.lists(st.integers(0, 9), max_size=2))
tags = st.lists(names, max_size=2, unique=True).map(tuple)
groupings = st.one_of(
    st.builds(lambda rows, a, b: queries.TreeGrouping(None, rows, a, b), row_groups, levels, tags),
    st.builds(
        lambda time, a, b: queries.TreeGrouping(time, None, a, b),
        st.builds(queries.GroupByTime, compounds, _maybe(compounds), _maybe(ranges)),
        levels,
        tags,
    ),
)
fills = st.one_of(
    st.builds(queries.TreeFill, st.just(queries.TreeFillMode.LINEAR)),
    st.builds(queries.TreeFill, st.just(queries.TreeFillMode.PREVIOUS), st.none(), _maybe(compounds)),
    st.builds(queries.TreeFill, st.just(queries.TreeFillMode.CONSTANT), st.builds(Literal, scalars)),
)
items = st.lists(
    st.builds(SelectItem, series, _maybe(names)), min_size=1, max_size=3, unique_by=lambda item: item.alias or object()
).map(tuple)
placeholders = st.sampled_from(["${1}", "x_${2}"])
targets = st.builds(
    queries.IntoTarget,
    _tuples(nodes | placeholders).map(lambda found: ("root", *found)) | st.just(("::",)),
    _tuples(nodes | placeholders) | st.just(("::",)),
    st.booleans(),
)
orderings = st.one_of(
    st.builds(queries.TreeOrdering, st.sampled_from(["time", "timeseries"]).map(ColumnRef), st.booleans()),
    st.builds(queries.TreeOrdering, columns.filter(lambda found: found.name != "device"), st.booleans(), _maybe(st.booleans())),
)
tree_queries = st.builds(
    queries.TreeQuery,
    items,
    _tuples(patterns),
    into=_tuples(targets, 0),
    where=_maybe(expressions),
    grouping=_maybe(groupings),
    having=_maybe(expressions),
    fill=_maybe(fills),
    order_by=_tuples(orderings, 0),
    limit=_maybe(positives),
    offset=_maybe(naturals),
    series_limit=_maybe(positives),
    series_offset=_maybe(naturals),
    by_device=st.booleans(),
    last=st.booleans(),
)

# Statements

declared = st.builds(
    model.TimeseriesSpec,
    nodes,
    st.sampled_from(list(TREE_TYPES.values())),
    _maybe(st.sampled_from(sorted(ENCODINGS))),
    _maybe(st.sampled_from(sorted(COMPRESSIONS))),
    _maybe(nodes),
    tags=pairs | st.just(()),
)
plain = st.builds(model.TimeseriesSpec, nodes, st.sampled_from(list(TREE_TYPES.values())))
changes = st.one_of(
    st.builds(model.AlterTimeseries, paths, st.just(model.TimeseriesChange.RENAME), st.tuples(text, text)),
    st.builds(model.AlterTimeseries, paths, st.just(model.TimeseriesChange.DROP), _tuples(text)),
    st.builds(model.AlterTimeseries, paths, st.just(model.TimeseriesChange.SET), tags=pairs),
    st.builds(model.AlterTimeseries, paths, st.just(model.TimeseriesChange.ADD_TAGS), tags=pairs),
    st.builds(model.AlterTimeseries, paths, st.just(model.TimeseriesChange.ADD_ATTRIBUTES), attributes=pairs),
    st.builds(
        model.AlterTimeseries, paths, st.just(model.TimeseriesChange.UPSERT), tags=pairs, attributes=pairs, alias=_maybe(nodes)
    ),
)
nows = st.builds(Now, st.integers(-(10**15), 10**15))
values = st.none() | scalars | nows


@st.composite
def inserts(draw: st.DrawFn) -> model.TreeInsert:
    """Rows as wide as their columns; only one without a time."""
    measurements = draw(_tuples(nodes))
    rows = draw(_tuples(st.tuples(*[values] * len(measurements))))
    moment = st.integers(-(2**63), 2**63) | st.just("2017-11-01T00:05:00") | nows
    moments = (None,) if len(rows) == 1 and draw(st.booleans()) else tuple(draw(moment) for _ in rows)
    return model.TreeInsert(draw(paths), measurements, moments, rows, draw(st.booleans()))


comparisons = st.builds(
    lambda sign, moment: Call(sign, (ColumnRef("time"), moment)), st.sampled_from(["<", "<=", ">", ">=", "="]), times
)
where = st.one_of(
    st.none(),
    st.just(("timeseries", "", "contains", "x")),
    st.builds(lambda key, value: ("tag", key, "=", value), text, text),
    st.builds(lambda key, value: ("tag", key, "contains", value), text, text),
    st.just(("datatype", "", "=", "FLOAT")),
)
device_conditions = st.one_of(
    st.just(("device", "", "contains", "x")),
    st.builds(lambda sign, name: ("template", "", sign, name), st.sampled_from(["=", "<>"]), text),
    st.sampled_from([("template", "", sign, "") for sign in ("is null", "is not null")]),
)
pipe_names = names | st.sampled_from(["if", "exists", "with", "sink", "中文"])
shows = st.one_of(
    st.sampled_from(
        ["all ttl", "functions", "continuous queries", "device templates", "version", "current_timestamp", "pipeplugins"]
    ).map(model.TreeShow),
    st.builds(model.TreeShow, st.just("queries"), limit=_maybe(positives), offset=_maybe(naturals)),
    st.builds(model.KillQueries, _maybe(st.sampled_from(["1:2", "it's"]))),
    st.builds(model.TreeShow, st.just("triggers"), details=st.booleans()),
    st.builds(model.TreeShow, st.just("pipe"), name=pipe_names),
    st.builds(model.TreeShow, st.just("pipes"), where=_maybe(st.builds(lambda name: ("sink", "", "used by", name), names))),
    st.builds(
        model.TreeShow, st.sampled_from(["databases", "child paths", "child nodes", "count databases"]), _tuples(patterns, 0, 1)
    ),
    st.builds(model.TreeShow, st.just("ttl"), _tuples(patterns)),
    st.builds(
        model.TreeShow,
        st.sampled_from(["timeseries", "latest timeseries"]),
        _tuples(patterns, 0, 1),
        where,
        limit=_maybe(positives),
        offset=_maybe(naturals),
    ),
    st.builds(model.TreeShow, st.just("devices"), _tuples(patterns, 0, 1), time=_maybe(comparisons), with_database=st.booleans()),
    st.builds(model.TreeShow, st.sampled_from(["devices", "count devices"]), _tuples(patterns, 0, 1), device_conditions),
    st.builds(model.TreeShow, st.just("count timeseries"), _tuples(patterns, 0, 1), time=comparisons),
    st.builds(model.TreeShow, st.just("count timeseries"), _tuples(patterns, 0, 1), where, level=_maybe(naturals)),
    st.builds(model.TreeShow, st.sampled_from(["nodes in template", "paths set template"]), name=names),
    st.builds(model.TreeShow, st.just("paths using template"), _tuples(patterns, 0, 1), name=names),
)
continuous = st.builds(
    model.CreateContinuousQuery,
    names,
    tree_queries,
    compounds,
    _maybe(times),
    _maybe(compounds),
    policy=st.sampled_from(model.TimeoutPolicy),
)
stage_attributes = st.dictionaries(text, text, max_size=3).map(lambda attributes: tuple(attributes.items()))
stage_changes = st.tuples(
    *(_maybe(st.builds(model.StageChange, st.just(stage), stage_attributes, st.booleans())) for stage in PipeStage)
).map(lambda changes: tuple(change for change in changes if change is not None))
people = names.filter(lambda name: name.lower() != "root")
grantees = st.builds(Grantee, st.sampled_from(GranteeKind), people)
privileges = _tuples(st.sampled_from(PRIVILEGES))
access_statements = st.one_of(
    st.builds(access.CreateUser, people, text),
    st.builds(access.AlterUser, people | st.just("root"), text),
    st.builds(access.DropUser, people),
    st.builds(access.CreateRole, people),
    st.builds(access.DropRole, people),
    st.builds(access.GrantRole, people, people, st.booleans()),
    st.builds(access.GrantPrivileges, privileges, _tuples(patterns), grantees, st.booleans()),
    st.builds(access.GrantPrivileges, privileges, _tuples(patterns), grantees, revoke=st.just(True)),
    st.builds(access.ListUsers, _maybe(people)),
    st.builds(access.ListRoles, _maybe(people | st.just("root"))),
    st.builds(access.ListPrivileges, grantees | st.just(Grantee(GranteeKind.USER, "root"))),
)
external_columns = st.builds(external.ExternalColumn, names, _maybe(st.sampled_from(list(TREE_TYPES.values()))), _tuples(names, 0))
external_tables = st.builds(
    external.CreateExternalTable,
    st.just(Name(None, TREE_TABLE)),
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


def _external_database(path: PathPattern, table: external.CreateExternalTable) -> model.CreateExternalDatabase:
    return model.CreateExternalDatabase(path, replace(table, name=Name(str(path), TREE_TABLE)))


statements: st.SearchStrategy[Any] = st.one_of(
    access_statements,
    st.builds(model.CreateTreeDatabase, patterns, _maybe(naturals)),
    st.builds(_external_database, patterns, external_tables),
    st.builds(model.DropTreeDatabases, _tuples(patterns)),
    st.builds(model.CreateTimeseries, paths, st.tuples(declared)),
    st.builds(model.CreateTimeseries, paths, _tuples(declared), st.just(True)),
    st.builds(model.DropTimeseries, _tuples(patterns)),
    changes,
    st.builds(model.SetTTL, patterns, _maybe(naturals | st.just(model.INFINITE))),
    st.builds(model.CreateTemplate, names, _tuples(plain, 0), st.booleans()),
    st.builds(model.AlterTemplate, names, _tuples(plain)),
    st.builds(model.DropTemplate, names),
    st.builds(model.SetTemplate, names, patterns, st.booleans()),
    st.builds(model.ActivateTemplate, patterns),
    st.builds(model.DeactivateTemplate, _tuples(patterns), _maybe(names)),
    inserts(),
    st.builds(model.TreeDelete, _tuples(patterns), _maybe(comparisons)),
    st.builds(model.TreeSelect, tree_queries),
    st.builds(lambda query, level: Explain(model.TreeSelect(query), level > 0, level > 1), tree_queries, st.integers(0, 2)),
    shows,
    st.builds(model.CreateFunction, names, text, _maybe(text)),
    st.builds(model.DropFunction, names),
    st.builds(
        model.CreateTrigger,
        names,
        st.sampled_from(TriggerType),
        st.sampled_from(TriggerEvent),
        patterns,
        text,
        _maybe(text),
        _tuples(st.tuples(text, text), 0),
    ),
    st.builds(model.DropTrigger, names),
    st.builds(CreatePipePlugin, names, text, _maybe(text), st.booleans()),
    st.builds(DropPipePlugin, names, st.booleans()),
    st.builds(model.StartTrigger, names),
    st.builds(model.StopTrigger, names),
    st.builds(model.CreatePipe, pipe_names, stage_attributes, stage_attributes, stage_attributes, st.booleans()),
    stage_changes.flatmap(lambda changes: st.builds(model.AlterPipe, pipe_names, st.just(changes), st.booleans())),
    st.builds(model.DropPipe, pipe_names, st.booleans()),
    st.builds(model.StartPipe, pipe_names),
    st.builds(model.StopPipe, pipe_names),
    continuous,
    st.builds(model.DropContinuousQuery, names),
    st.builds(model.PauseContinuousQuery, names),
    st.builds(model.ResumeContinuousQuery, names),
)
