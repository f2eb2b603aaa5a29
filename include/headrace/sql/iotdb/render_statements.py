"""The renderer of statements of the IoTDB language, each on one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import Final

from headrace.errors import InternalError
from headrace.model import tree_statements as model
from headrace.model.pipe_plugin_statements import CreatePipePlugin, DropPipePlugin
from headrace.model.statements import Explain, Statement
from headrace.model.tree_types import TREE_TYPE_NAMES
from headrace.model.values import Now, RowValue
from headrace.sql.external_tables import external_sql
from headrace.sql.iotdb.render import RENDERER, duration_sql, patterns_sql, query_sql
from headrace.sql.iotdb.words import LEXICAL_RULES, UNIT_NAMES
from headrace.sql.render import join_words, parenthesize, shifted_sql, text_if


@singledispatch
def statement_sql(statement: Statement) -> str:
    """Write a statement so that it parses back to itself."""
    raise InternalError(f"no text for {type(statement).__name__}")


def _pairs_sql(pairs: model.Properties) -> str:
    return ", ".join(f"{LEXICAL_RULES.quote(key)}={LEXICAL_RULES.quote(value)}" for key, value in pairs)


def _map_sql(word: str, pairs: model.Properties) -> str:
    return text_if(pairs, f"{word}({_pairs_sql(pairs)})")


# Databases and series


@statement_sql.register
def _create_tree_database_sql(statement: model.CreateTreeDatabase) -> str:
    return join_words(f"CREATE DATABASE {statement.path}", text_if(statement.ttl_ms is not None, f"WITH TTL={statement.ttl_ms}"))


@statement_sql.register
def _create_external_database_sql(statement: model.CreateExternalDatabase) -> str:
    return join_words(
        "CREATE EXTERNAL DATABASE",
        text_if(statement.table.if_not_exists, "IF NOT EXISTS"),
        str(statement.path),
        external_sql(statement.table, LEXICAL_RULES, lambda type_: TREE_TYPE_NAMES[type_.kind]),
    )


@statement_sql.register
def _drop_tree_databases_sql(statement: model.DropTreeDatabases) -> str:
    return f"DELETE DATABASE {patterns_sql(statement.patterns)}"


@statement_sql.register
def _create_timeseries_sql(statement: model.CreateTimeseries) -> str:
    if statement.aligned:
        return f"CREATE ALIGNED TIMESERIES {statement.device}{parenthesize(map(_measurement_sql, statement.series))}"
    spec = statement.series[0]
    return f"CREATE TIMESERIES {statement.device}.{spec.measurement}{_spec_sql(spec)}"


def _measurement_sql(spec: model.TimeseriesSpec) -> str:
    return f"{spec.measurement}{_spec_sql(spec)}"


def _spec_sql(spec: model.TimeseriesSpec) -> str:
    stored = (
        *((("ENCODING", spec.encoding),) if spec.encoding else ()),
        *((("COMPRESSION", spec.compression),) if spec.compression else ()),
    )
    pairs = [f"{key}={value}" for key, value in stored]
    pairs += [f"{LEXICAL_RULES.quote(key)}={LEXICAL_RULES.quote(value)}" for key, value in spec.properties]
    alias = text_if(spec.alias, f"({spec.alias})")
    rest = join_words(TREE_TYPE_NAMES[spec.type.kind], *pairs, _map_sql("TAGS", spec.tags), _map_sql("ATTRIBUTES", spec.attributes))
    return f"{alias} {rest}"


@statement_sql.register
def _drop_timeseries_sql(statement: model.DropTimeseries) -> str:
    return f"DELETE TIMESERIES {patterns_sql(statement.patterns)}"


@statement_sql.register
def _alter_timeseries_sql(statement: model.AlterTimeseries) -> str:
    return f"ALTER TIMESERIES {statement.path} {_change_sql(statement)}"


def _change_sql(statement: model.AlterTimeseries) -> str:
    names = [LEXICAL_RULES.quote(name) for name in statement.names]
    match statement.change:
        case model.TimeseriesChange.RENAME:
            return f"RENAME {' TO '.join(names)}"
        case model.TimeseriesChange.DROP:
            return f"DROP {', '.join(names)}"
        case model.TimeseriesChange.SET:
            return f"SET {_pairs_sql(statement.tags)}"
        case model.TimeseriesChange.ADD_TAGS:
            return f"ADD TAGS {_pairs_sql(statement.tags)}"
        case model.TimeseriesChange.ADD_ATTRIBUTES:
            return f"ADD ATTRIBUTES {_pairs_sql(statement.attributes)}"
    alias = text_if(statement.alias, f"ALIAS={statement.alias}")
    return join_words("UPSERT", alias, _map_sql("TAGS", statement.tags), _map_sql("ATTRIBUTES", statement.attributes))


@statement_sql.register
def _set_ttl_sql(statement: model.SetTTL) -> str:
    if statement.ttl_ms is None:
        return f"UNSET TTL FROM {statement.path}"
    return f"SET TTL TO {statement.path} {'INF' if statement.ttl_ms == model.INFINITE else statement.ttl_ms}"


# Device templates


@statement_sql.register
def _create_template_sql(statement: model.CreateTemplate) -> str:
    series = text_if(statement.series, parenthesize(map(_measurement_sql, statement.series)))
    return join_words(
        "CREATE DEVICE TEMPLATE", LEXICAL_RULES.name_sql(statement.name), text_if(statement.aligned, "ALIGNED"), series
    )


@statement_sql.register
def _alter_template_sql(statement: model.AlterTemplate) -> str:
    series = parenthesize(map(_measurement_sql, statement.series))
    return f"ALTER DEVICE TEMPLATE {LEXICAL_RULES.name_sql(statement.name)} ADD {series}"


@statement_sql.register
def _set_template_sql(statement: model.SetTemplate) -> str:
    verb, word = ("UNSET", "FROM") if statement.unset else ("SET", "TO")
    return f"{verb} DEVICE TEMPLATE {LEXICAL_RULES.name_sql(statement.name)} {word} {statement.path}"


@statement_sql.register
def _activate_template_sql(statement: model.ActivateTemplate) -> str:
    return f"CREATE TIMESERIES USING DEVICE TEMPLATE ON {statement.path}"


@statement_sql.register
def _deactivate_template_sql(statement: model.DeactivateTemplate) -> str:
    name = "" if statement.name is None else LEXICAL_RULES.name_sql(statement.name)
    return join_words("DEACTIVATE DEVICE TEMPLATE", name, "FROM", patterns_sql(statement.patterns))


# Rows


@statement_sql.register
def _tree_insert_sql(statement: model.TreeInsert) -> str:
    timed = any(time is not None for time in statement.times)
    columns = parenthesize((*(("time",) if timed else ()), *statement.measurements))
    rows = (_row_sql(time, row, timed) for time, row in zip(statement.times, statement.rows, strict=True))
    aligned = text_if(statement.aligned, "ALIGNED")
    return join_words(f"INSERT INTO {statement.device}{columns}", aligned, "VALUES", ", ".join(rows))


def _row_sql(time: RowValue, row: Sequence[RowValue], timed: bool) -> str:
    return parenthesize((*((_time_sql(time),) if timed else ()), *map(_value_sql, row)))


def _time_sql(time: RowValue) -> str:
    return time if isinstance(time, str) else _value_sql(time)


def _value_sql(value: RowValue) -> str:
    if isinstance(value, Now):
        return shifted_sql("now()", value.offset, UNIT_NAMES)
    return RENDERER.scalar_sql(value)


@statement_sql.register
def _tree_delete_sql(statement: model.TreeDelete) -> str:
    where = "" if statement.where is None else f"WHERE {RENDERER.sql(statement.where)}"
    return join_words("DELETE FROM", patterns_sql(statement.patterns), where)


# Looking


@statement_sql.register
def _tree_select_sql(statement: model.TreeSelect) -> str:
    return query_sql(statement.query)


@statement_sql.register
def _explain_sql(statement: Explain) -> str:
    options = text_if(statement.analyze, "ANALYZE ") + text_if(statement.verbose, "VERBOSE ")
    return f"EXPLAIN {options}{statement_sql(statement.statement)}"


@statement_sql.register
def _kill_queries_sql(statement: model.KillQueries) -> str:
    return "KILL ALL QUERIES" if statement.id is None else f"KILL QUERY {LEXICAL_RULES.quote(statement.id)}"


@statement_sql.register
def _tree_show_sql(statement: model.TreeShow) -> str:
    what = statement.what.upper()
    level = text_if(statement.level is not None, f"LEVEL={statement.level}")
    return join_words(
        what if what.startswith("COUNT") else f"SHOW {_show_words(statement)}",
        text_if(what == "TTL", "ON"),
        patterns_sql(statement.patterns) if not what.startswith("PATHS") else "",
        text_if(statement.with_database, "WITH DATABASE"),
        _show_condition(statement),
        text_if(level and what == "COUNT TIMESERIES", "GROUP BY"),
        level,
        text_if(statement.limit is not None, f"LIMIT {statement.limit}"),
        text_if(statement.offset is not None, f"OFFSET {statement.offset}"),
    )


def _show_words(statement: model.TreeShow) -> str:
    name = "" if statement.name is None else LEXICAL_RULES.name_sql(statement.name)
    match statement.what:
        case "nodes in template":
            return f"NODES IN DEVICE TEMPLATE {name}"
        case "paths set template":
            return f"PATHS SET DEVICE TEMPLATE {name}"
        case "paths using template":
            return join_words("PATHS", patterns_sql(statement.patterns), "USING DEVICE TEMPLATE", name)
    return join_words(statement.what.upper(), name, text_if(statement.details, "DETAILS"))


def _show_condition(statement: model.TreeShow) -> str:
    if statement.time is not None:
        return f"WHERE {RENDERER.sql(statement.time)}"
    if statement.where is None:
        return ""
    what, key, operator, value = statement.where
    if operator == "used by":
        return f"WHERE {what.upper()} USED BY {LEXICAL_RULES.name_sql(value)}"
    subject = {"tag": f"TAGS({LEXICAL_RULES.quote(key)})"}.get(what, what.upper())
    return join_words("WHERE", subject, operator.upper(), text_if("null" not in operator, LEXICAL_RULES.quote(value)))


# Functions, triggers and continuous queries


@statement_sql.register
def _create_function_sql(statement: model.CreateFunction) -> str:
    uri = "" if statement.uri is None else f"USING URI {LEXICAL_RULES.quote(statement.uri)}"
    return join_words(
        f"CREATE FUNCTION {LEXICAL_RULES.name_sql(statement.name)} AS {LEXICAL_RULES.quote(statement.class_name)}", uri
    )


@statement_sql.register
def _create_trigger_sql(statement: model.CreateTrigger) -> str:
    return join_words(
        f"CREATE {statement.type} TRIGGER {LEXICAL_RULES.name_sql(statement.name)} {statement.event.replace('_', ' ')}",
        f"ON {statement.pattern} AS {LEXICAL_RULES.quote(statement.class_name)}",
        "" if statement.uri is None else f"USING URI {LEXICAL_RULES.quote(statement.uri)}",
        text_if(statement.attributes, f"WITH ({_pairs_sql(statement.attributes)})"),
    )


@statement_sql.register
def _create_continuous_query_sql(statement: model.CreateContinuousQuery) -> str:
    return join_words(
        f"CREATE CONTINUOUS QUERY {LEXICAL_RULES.name_sql(statement.name)}",
        _resample_sql(statement),
        text_if(statement.policy is not model.TimeoutPolicy.BLOCKED, f"TIMEOUT POLICY {statement.policy}"),
        f"BEGIN {query_sql(statement.query)} END",
    )


def _resample_sql(statement: model.CreateContinuousQuery) -> str:
    ends = [duration_sql(end) for end in (statement.start_offset, statement.end_offset) if end is not None]
    parts = (
        "" if statement.every is None else f"EVERY {duration_sql(statement.every)}",
        "" if statement.boundary is None else f"BOUNDARY {RENDERER.sql(statement.boundary)}",
        text_if(ends, f"RANGE {', '.join(ends)}"),
    )
    return join_words("RESAMPLE", *parts) if any(parts) else ""


# Pipes


@statement_sql.register
def _create_pipe_sql(statement: model.CreatePipe) -> str:
    optional = (("SOURCE", statement.source), ("PROCESSOR", statement.processor))
    return join_words(
        "CREATE PIPE",
        text_if(statement.if_not_exists, "IF NOT EXISTS"),
        LEXICAL_RULES.name_sql(statement.name),
        *(f"WITH {_attributes_sql(stage, pairs)}" for stage, pairs in optional if pairs),
        f"WITH {_attributes_sql('SINK', statement.sink)}",
    )


def _attributes_sql(stage: str, pairs: model.Properties) -> str:
    return f"{stage} ({_pairs_sql(pairs)})"


@statement_sql.register
def _alter_pipe_sql(statement: model.AlterPipe) -> str:
    return join_words(
        "ALTER PIPE",
        text_if(statement.if_exists, "IF EXISTS"),
        LEXICAL_RULES.name_sql(statement.name),
        *(
            f"{'REPLACE' if change.replaces else 'MODIFY'} {_attributes_sql(change.stage.upper(), change.attributes)}"
            for change in statement.changes
        ),
    )


@statement_sql.register
def _drop_pipe_sql(statement: model.DropPipe) -> str:
    return join_words("DROP PIPE", text_if(statement.if_exists, "IF EXISTS"), LEXICAL_RULES.name_sql(statement.name))


@statement_sql.register
def _create_pipe_plugin_sql(statement: CreatePipePlugin) -> str:
    return join_words(
        "CREATE PIPEPLUGIN",
        text_if(statement.if_not_exists, "IF NOT EXISTS"),
        f"{LEXICAL_RULES.name_sql(statement.name)} AS {LEXICAL_RULES.quote(statement.class_name)}",
        "" if statement.uri is None else f"USING URI {LEXICAL_RULES.quote(statement.uri)}",
    )


@statement_sql.register
def _drop_pipe_plugin_sql(statement: DropPipePlugin) -> str:
    return join_words("DROP PIPEPLUGIN", text_if(statement.if_exists, "IF EXISTS"), LEXICAL_RULES.name_sql(statement.name))


NAMED_WORDS: Final[Mapping[type, str]] = {
    model.DropContinuousQuery: "DROP CONTINUOUS QUERY",
    model.DropFunction: "DROP FUNCTION",
    model.DropTemplate: "DROP DEVICE TEMPLATE",
    model.DropTrigger: "DROP TRIGGER",
    model.PauseContinuousQuery: "PAUSE CONTINUOUS QUERY",
    model.ResumeContinuousQuery: "RESUME CONTINUOUS QUERY",
    model.StartPipe: "START PIPE",
    model.StartTrigger: "START TRIGGER",
    model.StopPipe: "STOP PIPE",
    model.StopTrigger: "STOP TRIGGER",
}


@statement_sql.register
def _named_sql(statement: model.NamedStatement) -> str:
    return f"{NAMED_WORDS[type(statement)]} {LEXICAL_RULES.name_sql(statement.name)}"
