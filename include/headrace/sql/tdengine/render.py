"""Writing of TDengine statements on one line. The parser accepts everything written here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import singledispatch
from typing import Final

from headrace.errors import InternalError
from headrace.model import statements as model
from headrace.model.expressions import Expression
from headrace.model.notifications import ClosePolicy, FailurePolicy, Notification
from headrace.model.streams import StreamOptions, TriggerMode
from headrace.model.tables import Column, Name
from headrace.model.time import Precision
from headrace.sql.render import join_words, parenthesize, shifted_sql, text_if
from headrace.sql.tdengine.render_queries import RENDERER, query_sql
from headrace.sql.tdengine.tables import DATABASE_OPTIONS, STRING
from headrace.sql.tdengine.words import LEXICAL_RULES

DEFAULTS: Final = StreamOptions()


def expression_sql(expression: Expression) -> str:
    """Write an expression."""
    return RENDERER.sql(expression)


@singledispatch
def statement_sql(statement: model.Statement) -> str:
    """Write a statement, such that parsing it returns an equal statement."""
    raise InternalError(f"cannot write {type(statement).__name__} as SQL")


def name_sql(name: Name) -> str:
    """Write `[database.]name`."""
    name_text = LEXICAL_RULES.name_sql(name.name)
    return name_text if name.database is None else f"{LEXICAL_RULES.name_sql(name.database)}.{name_text}"


def _names_sql(names: Iterable[str]) -> str:
    return parenthesize(LEXICAL_RULES.name_sql(name) for name in names)


# Databases and tables


@statement_sql.register
def _create_database_sql(statement: model.CreateDatabase) -> str:
    options = [_database_option(name, value) for name, value in statement.options]
    precision = text_if(statement.precision is not Precision.MILLISECOND, f"PRECISION '{statement.precision}'")
    exists = text_if(statement.if_not_exists, "IF NOT EXISTS")
    return join_words("CREATE DATABASE", exists, name_sql(statement.name), precision, *options)


@statement_sql.register
def _alter_database_sql(statement: model.AlterDatabase) -> str:
    return join_words("ALTER DATABASE", name_sql(statement.name), *(_database_option(*option) for option in statement.options))


@statement_sql.register
def _maintain_database_sql(statement: model.MaintainDatabase) -> str:
    ends = (("START WITH", statement.start), ("END WITH", statement.end))
    range_ = (f"{words} {RENDERER.scalar_sql(value)}" for words, value in ends if value is not None)
    return join_words("COMPACT" if statement.compact else "FLUSH", "DATABASE", name_sql(statement.name), *range_)


def _database_option(name: str, value: str) -> str:
    word = name.upper()
    return f"{word} {LEXICAL_RULES.quote(value) if DATABASE_OPTIONS.get(word) == STRING else value}"


@statement_sql.register
def _use_database_sql(statement: model.UseDatabase) -> str:
    return f"USE {name_sql(statement.name)}"


@statement_sql.register
def _create_table_sql(statement: model.CreateTable) -> str:
    tags = f"TAGS {parenthesize(map(_column_sql, statement.tags))}" if statement.tags else ""
    return join_words(
        f"CREATE {'STABLE' if statement.tags else 'TABLE'}",
        text_if(statement.if_not_exists, "IF NOT EXISTS"),
        name_sql(statement.name),
        parenthesize(map(_column_sql, statement.columns)),
        tags,
        _comment_sql(statement.comment),
        text_if(statement.ttl_days > 0, f"TTL {statement.ttl_days}"),
        text_if(statement.is_virtual, "VIRTUAL 1"),
    )


def _column_sql(column: Column) -> str:
    return join_words(
        LEXICAL_RULES.name_sql(column.name), str(column.type), text_if(column.is_key, "PRIMARY KEY"), _comment_sql(column.comment)
    )


def _comment_sql(comment: str | None) -> str:
    return "" if comment is None else f"COMMENT {LEXICAL_RULES.quote(comment)}"


@statement_sql.register
def _create_subtables_sql(statement: model.CreateSubtables) -> str:
    subtables = (
        join_words(text_if(spec.if_not_exists, "IF NOT EXISTS"), name_sql(spec.name), _using_sql(spec))
        for spec in statement.subtables
    )
    return f"CREATE TABLE {' '.join(subtables)}"


@statement_sql.register
def _create_subtables_from_file_sql(statement: model.CreateSubtablesFromFile) -> str:
    file = f"{_names_sql(statement.columns)} FILE {LEXICAL_RULES.quote(statement.path)}"
    return join_words("CREATE TABLE", text_if(statement.if_not_exists, "IF NOT EXISTS"), "USING", name_sql(statement.using), file)


def _using_sql(spec: model.SubtableSpec) -> str:
    names = "" if spec.tag_names is None else _names_sql(spec.tag_names)
    values = parenthesize(RENDERER.scalar_sql(value.value) for value in spec.tag_values)
    return join_words("USING", name_sql(spec.using), names, "TAGS", values, text_if(spec.ttl_days > 0, f"TTL {spec.ttl_days}"))


@statement_sql.register
def _drop_table_sql(statement: model.DropTable) -> str:
    what = "DROP STABLE" if statement.supertable else "DROP VTABLE" if statement.is_virtual else "DROP TABLE"
    return join_words(what, text_if(statement.if_exists, "IF EXISTS"), ", ".join(map(name_sql, statement.names)))


@statement_sql.register
def _set_tags_sql(statement: model.SetTags) -> str:
    values = ", ".join(f"{LEXICAL_RULES.name_sql(name)} = {RENDERER.scalar_sql(value.value)}" for name, value in statement.values)
    return f"ALTER {'VTABLE' if statement.is_virtual else 'TABLE'} {name_sql(statement.table)} SET TAG {values}"


@statement_sql.register
def _alter_table_sql(statement: model.AddColumn | model.DropColumn | model.ModifyColumn | model.RenameColumn) -> str:
    match statement:
        case model.AddColumn(column=column):
            change = "ADD", _column_sql(column)
        case model.DropColumn(name=name):
            change = "DROP", LEXICAL_RULES.name_sql(name)
        case model.ModifyColumn(column=column):
            change = "MODIFY", _column_sql(column)
        case model.RenameColumn(name=name, new_name=new_name):
            change = "RENAME", f"{LEXICAL_RULES.name_sql(name)} {LEXICAL_RULES.name_sql(new_name)}"
    what = "STABLE" if statement.supertable else "TABLE"
    return f"ALTER {what} {name_sql(statement.table)} {change[0]} {'TAG' if statement.is_tag else 'COLUMN'} {change[1]}"


@statement_sql.register
def _set_table_options_sql(statement: model.SetTableOptions) -> str:
    ttl = text_if(statement.ttl_days is not None, f"TTL {statement.ttl_days}")
    keyword = "STABLE" if statement.supertable else "TABLE"
    return join_words("ALTER", keyword, name_sql(statement.table), _comment_sql(statement.comment), ttl)


# Virtual tables


def _origin_sql(origin: model.Origin) -> str:
    return f"{name_sql(origin.table)}.{LEXICAL_RULES.name_sql(origin.column)}"


def _virtual_column_sql(column: Column, origin: model.Origin | None) -> str:
    source = "" if origin is None else f"FROM {_origin_sql(origin)}"
    return join_words(LEXICAL_RULES.name_sql(column.name), str(column.type), source)


def _assigned_origin_sql(column: str | None, origin: model.Origin) -> str:
    return _origin_sql(origin) if column is None else f"{LEXICAL_RULES.name_sql(column)} FROM {_origin_sql(origin)}"


@statement_sql.register
def _create_virtual_table_sql(statement: model.CreateVirtualTable) -> str:
    exists = text_if(statement.if_not_exists, "IF NOT EXISTS")
    columns = map(_virtual_column_sql, statement.columns, statement.origins)
    return join_words("CREATE VTABLE", exists, name_sql(statement.name), parenthesize(columns))


@statement_sql.register
def _create_virtual_subtable_sql(statement: model.CreateVirtualSubtable) -> str:
    spec = statement.spec
    origins = parenthesize(_assigned_origin_sql(column, origin) for column, origin in statement.origins)
    exists = text_if(spec.if_not_exists, "IF NOT EXISTS")
    return join_words("CREATE VTABLE", exists, name_sql(spec.name), origins, _using_sql(spec))


@statement_sql.register
def _alter_virtual_table_sql(statement: model.AlterVirtualTable) -> str:
    change = statement_sql(statement.change).replace("ALTER TABLE", "ALTER VTABLE", 1)
    return join_words(change, "" if statement.origin is None else f"FROM {_origin_sql(statement.origin)}")


@statement_sql.register
def _set_origin_sql(statement: model.SetOrigin) -> str:
    origin = "NULL" if statement.origin is None else _origin_sql(statement.origin)
    return f"ALTER VTABLE {name_sql(statement.table)} ALTER COLUMN {LEXICAL_RULES.name_sql(statement.column)} SET {origin}"


# Rows


@statement_sql.register
def _insert_sql(statement: model.Insert | model.InsertFiles) -> str:
    return f"INSERT INTO {' '.join(map(_block_sql, statement.blocks))}"


def _block_sql(block: model.InsertBlock | model.FileBlock) -> str:
    using = "" if block.using is None else _using_sql(block.using)
    columns = "" if block.columns is None else _names_sql(block.columns)
    if isinstance(block, model.FileBlock):
        return join_words(name_sql(block.table), using, columns, "FILE", LEXICAL_RULES.quote(block.path))
    return join_words(name_sql(block.table), using, columns, "VALUES", " ".join(map(_row_sql, block.rows)))


@statement_sql.register
def _insert_select_sql(statement: model.InsertSelect) -> str:
    columns = "" if statement.columns is None else _names_sql(statement.columns)
    return join_words("INSERT INTO", name_sql(statement.table), columns, query_sql(statement.query))


def _row_sql(row: Sequence[model.RowValue]) -> str:
    return parenthesize(_now_sql(value) if isinstance(value, model.Now) else RENDERER.scalar_sql(value) for value in row)


def _now_sql(now: model.Now) -> str:
    return shifted_sql("today()" if now.today else "now()", now.offset, {})


@statement_sql.register
def _delete_sql(statement: model.Delete) -> str:
    where = "" if statement.where is None else f"WHERE {expression_sql(statement.where)}"
    return join_words("DELETE FROM", name_sql(statement.table), where)


# Queries


@statement_sql.register
def _describe_sql(statement: model.Describe) -> str:
    return f"DESCRIBE {name_sql(statement.table)}"


@statement_sql.register
def _show_sql(statement: model.Show) -> str:
    what = statement.what.upper()
    if statement.name is not None:
        return join_words("SHOW", what, {"TAGS": "FROM", "FILES": "OF"}.get(what, ""), name_sql(statement.name))
    database = "" if statement.database is None else f"FROM {LEXICAL_RULES.name_sql(statement.database)}"
    like = "" if statement.like is None else f"LIKE {LEXICAL_RULES.quote(statement.like)}"
    return join_words("SHOW", what, database, like)


@statement_sql.register
def _select_sql(statement: model.Select) -> str:
    return query_sql(statement.query)


@statement_sql.register
def _explain_sql(statement: model.Explain) -> str:
    options = (text_if(statement.analyze, "ANALYZE"), text_if(statement.verbose, "VERBOSE TRUE"))
    return join_words("EXPLAIN", *options, statement_sql(statement.statement))


# Streams


@statement_sql.register
def _create_stream_sql(statement: model.CreateStream) -> str:
    columns = "" if statement.columns is None else parenthesize(map(_target_column_sql, statement.columns))
    tags = "" if statement.tags is None else f"TAGS {parenthesize(map(_target_tag_sql, statement.tags))}"
    subtable = "" if statement.subtable is None else f"SUBTABLE({expression_sql(statement.subtable)})"
    return join_words(
        "CREATE OR REPLACE STREAM" if statement.or_replace else "CREATE STREAM",
        text_if(statement.if_not_exists, "IF NOT EXISTS"),
        name_sql(statement.name),
        _options_sql(statement.options),
        "INTO",
        name_sql(statement.target),
        columns,
        tags,
        subtable,
        "AS",
        query_sql(statement.query),
        "" if statement.notification is None else _notification_sql(statement.notification),
    )


def _notification_sql(notification: Notification) -> str:
    return join_words(
        "NOTIFY",
        parenthesize(map(LEXICAL_RULES.quote, notification.urls)),
        "ON",
        parenthesize(map(LEXICAL_RULES.quote, notification.events)),
        text_if(notification.on_failure is not FailurePolicy.PAUSE, f"ON_FAILURE {notification.on_failure}"),
        text_if(notification.history, "NOTIFY_HISTORY 1"),
        text_if(notification.on_close is not ClosePolicy.RESULT, f"ON_CLOSE {notification.on_close}"),
    )


def _options_sql(options: StreamOptions) -> str:
    return join_words(
        _trigger_sql(options),
        text_if(options.watermark != DEFAULTS.watermark, f"WATERMARK {options.watermark}"),
        text_if(not options.ignore_expired, "IGNORE EXPIRED 0"),
        text_if(not options.ignore_update, "IGNORE UPDATE 0"),
        text_if(options.delete_mark is not None, f"DELETE_MARK {options.delete_mark}"),
        text_if(options.max_ahead is not None, f"MAX_AHEAD {options.max_ahead}"),
        text_if(options.on_error is not DEFAULTS.on_error, f"ON_ERROR {options.on_error}"),
        text_if(options.fill_history, "FILL_HISTORY 1"),
        text_if(options.fill_history_async, "ASYNC"),
        text_if(options.partitions != DEFAULTS.partitions, f"PARTITIONS {options.partitions}"),
    )


def _trigger_sql(options: StreamOptions) -> str:
    if options.trigger is DEFAULTS.trigger:
        return ""
    recalculate = "" if options.recalculate is None else f"RECALCULATE {options.recalculate}"
    delay = str(options.max_delay) if options.trigger is TriggerMode.MAX_DELAY else ""
    return join_words("TRIGGER", options.trigger, delay, recalculate)


def _target_column_sql(column: model.TargetColumn) -> str:
    return join_words(LEXICAL_RULES.name_sql(column.name), text_if(column.is_key, "PRIMARY KEY"))


def _target_tag_sql(tag: model.TargetTag) -> str:
    return LEXICAL_RULES.name_sql(tag.name) if tag.column is None else _column_sql(tag.column)


@statement_sql.register
def _alter_stream_sql(statement: model.AlterStream) -> str:
    return join_words(
        "ALTER STREAM",
        text_if(statement.if_exists, "IF EXISTS"),
        name_sql(statement.name),
        text_if(statement.watermark is not None, f"WATERMARK {statement.watermark}"),
        text_if(statement.ignore_expired is not None, f"IGNORE EXPIRED {int(statement.ignore_expired or False)}"),
        text_if(statement.ignore_update is not None, f"IGNORE UPDATE {int(statement.ignore_update or False)}"),
        text_if(statement.max_ahead is not None, f"MAX_AHEAD {statement.max_ahead}"),
        text_if(statement.on_error is not None, f"ON_ERROR {statement.on_error}"),
    )


CONTROL_WORDS: Final[Mapping[type, str]] = {
    model.DropDatabase: "DROP DATABASE",
    model.DropQuarantine: "DROP QUARANTINE OF STREAM",
    model.DropStream: "DROP STREAM",
    model.PauseStream: "PAUSE STREAM",
    model.ReplayStream: "REPLAY QUARANTINE OF STREAM",
    model.ResetStream: "RESET STREAM",
}


@statement_sql.register
def _control_sql(statement: model.DropDatabase | model.StreamStatement) -> str:
    return join_words(CONTROL_WORDS[type(statement)], text_if(statement.if_exists, "IF EXISTS"), name_sql(statement.name))


@statement_sql.register
def _resume_stream_sql(statement: model.ResumeStream) -> str:
    exists, untreated = text_if(statement.if_exists, "IF EXISTS"), text_if(statement.ignore_untreated, "IGNORE UNTREATED")
    return join_words("RESUME STREAM", exists, untreated, name_sql(statement.name))


@statement_sql.register
def _snode_sql(statement: model.CreateSnode | model.DropSnode) -> str:
    return f"{'CREATE' if isinstance(statement, model.CreateSnode) else 'DROP'} SNODE ON DNODE {statement.dnode}"


@statement_sql.register
def _kill_query_sql(statement: model.KillQuery) -> str:
    return f"KILL QUERY {LEXICAL_RULES.quote(statement.id)}"


@statement_sql.register
def _kill_connection_sql(statement: model.KillConnection) -> str:
    return f"KILL CONNECTION {statement.id}"


# Functions


@statement_sql.register
def _create_function_sql(statement: model.CreateModuleFunction) -> str:
    return join_words(
        "CREATE OR REPLACE" if statement.or_replace else "CREATE",
        text_if(statement.is_aggregate, "AGGREGATE"),
        "FUNCTION",
        text_if(statement.if_not_exists, "IF NOT EXISTS"),
        LEXICAL_RULES.name_sql(statement.name),
        f"AS {LEXICAL_RULES.quote(statement.path)} OUTPUTTYPE {statement.output_type}",
        text_if(statement.buffer_size > 0, f"BUFSIZE {statement.buffer_size}"),
        "LANGUAGE 'Python'",
    )


@statement_sql.register
def _drop_function_sql(statement: model.DropModuleFunction) -> str:
    return join_words("DROP FUNCTION", text_if(statement.if_exists, "IF EXISTS"), LEXICAL_RULES.name_sql(statement.name))
