"""Writing of TDengine statements on one line. The parser accepts everything written here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import singledispatch
from typing import Final

from headrace.errors import InternalError
from headrace.model import statements as model
from headrace.model.expressions import Expression
from headrace.model.notifications import FailurePolicy, Notification
from headrace.model.streams import StreamOptions, TriggerMode
from headrace.model.tables import Column, Name
from headrace.model.time import Precision
from headrace.sql.render import shifted_sql
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


def parenthesize(parts: Iterable[str]) -> str:
    """Write parts in parentheses, with commas."""
    return f"({', '.join(parts)})"


def _names_sql(names: Iterable[str]) -> str:
    return parenthesize(LEXICAL_RULES.name_sql(name) for name in names)


def join_words(*parts: str) -> str:
    """Join the parts that are not empty."""
    return " ".join(part for part in parts if part)


def text_if(condition: bool, text: str) -> str:
    """Return a text, or nothing."""
    return text if condition else ""


# Databases and tables


@statement_sql.register
def _(statement: model.CreateDatabase) -> str:
    options = [_database_option(name, value) for name, value in statement.options]
    precision = text_if(statement.precision is not Precision.MILLISECOND, f"PRECISION '{statement.precision}'")
    exists = text_if(statement.if_not_exists, "IF NOT EXISTS")
    return join_words("CREATE DATABASE", exists, name_sql(statement.name), precision, *options)


def _database_option(name: str, value: str) -> str:
    word = name.upper()
    return f"{word} {LEXICAL_RULES.quote(value) if DATABASE_OPTIONS.get(word) == STRING else value}"


@statement_sql.register
def _(statement: model.DropDatabase) -> str:
    return join_words("DROP DATABASE", text_if(statement.if_exists, "IF EXISTS"), name_sql(statement.name))


@statement_sql.register
def _(statement: model.UseDatabase) -> str:
    return f"USE {name_sql(statement.name)}"


@statement_sql.register
def _(statement: model.CreateTable) -> str:
    tags = f"TAGS {parenthesize(map(_column_sql, statement.tags))}" if statement.tags else ""
    return join_words(
        f"CREATE {'STABLE' if statement.tags else 'TABLE'}",
        text_if(statement.if_not_exists, "IF NOT EXISTS"),
        name_sql(statement.name),
        parenthesize(map(_column_sql, statement.columns)),
        tags,
        _comment_sql(statement.comment),
        text_if(statement.is_virtual, "VIRTUAL 1"),
    )


def _column_sql(column: Column) -> str:
    return join_words(
        LEXICAL_RULES.name_sql(column.name), str(column.type), text_if(column.is_key, "PRIMARY KEY"), _comment_sql(column.comment)
    )


def _comment_sql(comment: str | None) -> str:
    return "" if comment is None else f"COMMENT {LEXICAL_RULES.quote(comment)}"


@statement_sql.register
def _(statement: model.CreateSubtables) -> str:
    subtables = (
        join_words(text_if(spec.if_not_exists, "IF NOT EXISTS"), name_sql(spec.name), using_sql(spec))
        for spec in statement.subtables
    )
    return f"CREATE TABLE {' '.join(subtables)}"


def using_sql(spec: model.SubtableSpec) -> str:
    """Write `USING supertable [(tag, …)] TAGS (value, …)`."""
    names = "" if spec.tag_names is None else _names_sql(spec.tag_names)
    values = parenthesize(RENDERER.scalar_sql(value.value) for value in spec.tag_values)
    return join_words("USING", name_sql(spec.using), names, "TAGS", values)


@statement_sql.register
def _(statement: model.DropTable) -> str:
    what = "DROP STABLE" if statement.supertable else "DROP VTABLE" if statement.is_virtual else "DROP TABLE"
    return join_words(what, text_if(statement.if_exists, "IF EXISTS"), ", ".join(map(name_sql, statement.names)))


@statement_sql.register
def _(statement: model.SetTags) -> str:
    values = ", ".join(f"{LEXICAL_RULES.name_sql(name)} = {RENDERER.scalar_sql(value.value)}" for name, value in statement.values)
    return f"ALTER {'VTABLE' if statement.is_virtual else 'TABLE'} {name_sql(statement.table)} SET TAG {values}"


def _alter_sql(statement: model.AlterTable, action: str, *parts: str) -> str:
    what = "STABLE" if statement.supertable else "TABLE"
    return join_words("ALTER", what, name_sql(statement.table), action, "TAG" if statement.is_tag else "COLUMN", *parts)


@statement_sql.register
def _(statement: model.AddColumn) -> str:
    return _alter_sql(statement, "ADD", _column_sql(statement.column))


@statement_sql.register
def _(statement: model.DropColumn) -> str:
    return _alter_sql(statement, "DROP", LEXICAL_RULES.name_sql(statement.name))


@statement_sql.register
def _(statement: model.ModifyColumn) -> str:
    return _alter_sql(statement, "MODIFY", _column_sql(statement.column))


@statement_sql.register
def _(statement: model.RenameColumn) -> str:
    return _alter_sql(statement, "RENAME", LEXICAL_RULES.name_sql(statement.name), LEXICAL_RULES.name_sql(statement.new_name))


# Rows


@statement_sql.register
def _(statement: model.Insert) -> str:
    return f"INSERT INTO {' '.join(map(_block_sql, statement.blocks))}"


def _block_sql(block: model.InsertBlock) -> str:
    using = "" if block.using is None else using_sql(block.using)
    columns = "" if block.columns is None else _names_sql(block.columns)
    return join_words(name_sql(block.table), using, columns, "VALUES", " ".join(map(_row_sql, block.rows)))


def _row_sql(row: Sequence[model.RowValue]) -> str:
    return parenthesize(_now_sql(value) if isinstance(value, model.Now) else RENDERER.scalar_sql(value) for value in row)


def _now_sql(now: model.Now) -> str:
    return shifted_sql("today()" if now.today else "now()", now.offset, {})


@statement_sql.register
def _(statement: model.Delete) -> str:
    where = "" if statement.where is None else f"WHERE {expression_sql(statement.where)}"
    return join_words("DELETE FROM", name_sql(statement.table), where)


# Queries


@statement_sql.register
def _(statement: model.Describe) -> str:
    return f"DESCRIBE {name_sql(statement.table)}"


@statement_sql.register
def _(statement: model.Show) -> str:
    what = statement.what.upper()
    if statement.name is not None:
        return join_words("SHOW", what, text_if(what == "TAGS", "FROM"), name_sql(statement.name))
    database = "" if statement.database is None else f"FROM {LEXICAL_RULES.name_sql(statement.database)}"
    like = "" if statement.like is None else f"LIKE {LEXICAL_RULES.quote(statement.like)}"
    return join_words("SHOW", what, database, like)


@statement_sql.register
def _(statement: model.Select) -> str:
    return query_sql(statement.query)


@statement_sql.register
def _(statement: model.Explain) -> str:
    return f"EXPLAIN {statement_sql(statement.statement)}"


# Streams


@statement_sql.register
def _(statement: model.CreateStream) -> str:
    columns = "" if statement.columns is None else parenthesize(map(_target_column_sql, statement.columns))
    tags = "" if statement.tags is None else f"TAGS {parenthesize(map(_target_tag_sql, statement.tags))}"
    subtable = "" if statement.subtable is None else f"SUBTABLE({expression_sql(statement.subtable)})"
    return join_words(
        "CREATE STREAM",
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
    )


def _options_sql(options: StreamOptions) -> str:
    return join_words(
        _trigger_sql(options),
        text_if(options.watermark != DEFAULTS.watermark, f"WATERMARK {options.watermark}"),
        text_if(not options.ignore_expired, "IGNORE EXPIRED 0"),
        text_if(not options.ignore_update, "IGNORE UPDATE 0"),
        text_if(options.delete_mark is not None, f"DELETE_MARK {options.delete_mark}"),
        text_if(options.fill_history, "FILL_HISTORY 1"),
        text_if(options.fill_history_async, "ASYNC"),
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
def _(statement: model.DropStream) -> str:
    return join_words("DROP STREAM", text_if(statement.if_exists, "IF EXISTS"), name_sql(statement.name))


@statement_sql.register
def _(statement: model.PauseStream) -> str:
    return join_words("PAUSE STREAM", text_if(statement.if_exists, "IF EXISTS"), name_sql(statement.name))


@statement_sql.register
def _(statement: model.ResumeStream) -> str:
    exists, untreated = text_if(statement.if_exists, "IF EXISTS"), text_if(statement.ignore_untreated, "IGNORE UNTREATED")
    return join_words("RESUME STREAM", exists, untreated, name_sql(statement.name))
