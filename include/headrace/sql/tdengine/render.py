"""Writing statements of the TDengine language: what the parser reads, it writes, on one line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import singledispatch
from typing import Final

from headrace.errors import InternalError
from headrace.model import statements as model
from headrace.model.expressions import Expression
from headrace.model.streams import StreamOptions, TriggerMode
from headrace.model.tables import Column, Name
from headrace.model.time import NANOSECONDS, Precision
from headrace.sql.tdengine.render_queries import RENDERER, query_sql
from headrace.sql.tdengine.tables import DATABASE_OPTIONS, STRING
from headrace.sql.tdengine.words import LEXIS

DEFAULTS: Final = StreamOptions()


def expression_sql(expression: Expression) -> str:
    """An expression of the TDengine language."""
    return RENDERER.sql(expression)


@singledispatch
def statement_sql(statement: model.Statement) -> str:
    """A statement of the TDengine language; parsed again it is the same statement."""
    raise InternalError(f"no text for {type(statement).__name__}")


def name_sql(name: Name) -> str:
    """`[database.]name`."""
    own = LEXIS.name_sql(name.name)
    return own if name.database is None else f"{LEXIS.name_sql(name.database)}.{own}"


def _listed(parts: Iterable[str]) -> str:
    return f"({', '.join(parts)})"


def _names(names: Iterable[str]) -> str:
    return _listed(LEXIS.name_sql(name) for name in names)


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _when(condition: bool, text: str) -> str:
    return text if condition else ""


# Databases and tables


@statement_sql.register
def _(statement: model.CreateDatabase) -> str:
    options = [_database_option(name, value) for name, value in statement.options]
    precision = _when(statement.precision is not Precision.MILLISECOND, f"PRECISION '{statement.precision}'")
    exists = _when(statement.if_not_exists, "IF NOT EXISTS")
    return _joined("CREATE DATABASE", exists, name_sql(statement.name), precision, *options)


def _database_option(name: str, value: str) -> str:
    word = name.upper()
    return f"{word} {LEXIS.quote(value) if DATABASE_OPTIONS.get(word) == STRING else value}"


@statement_sql.register
def _(statement: model.DropDatabase) -> str:
    return _joined("DROP DATABASE", _when(statement.if_exists, "IF EXISTS"), name_sql(statement.name))


@statement_sql.register
def _(statement: model.UseDatabase) -> str:
    return f"USE {name_sql(statement.name)}"


@statement_sql.register
def _(statement: model.CreateTable) -> str:
    tags = f"TAGS {_listed(map(_column_sql, statement.tags))}" if statement.tags else ""
    return _joined(
        f"CREATE {'STABLE' if statement.tags else 'TABLE'}",
        _when(statement.if_not_exists, "IF NOT EXISTS"),
        name_sql(statement.name),
        _listed(map(_column_sql, statement.columns)),
        tags,
        _comment_sql(statement.comment),
    )


def _column_sql(column: Column) -> str:
    return _joined(LEXIS.name_sql(column.name), str(column.type), _when(column.is_key, "PRIMARY KEY"), _comment_sql(column.comment))


def _comment_sql(comment: str | None) -> str:
    return "" if comment is None else f"COMMENT {LEXIS.quote(comment)}"


@statement_sql.register
def _(statement: model.CreateSubtables) -> str:
    subtables = (
        _joined(_when(spec.if_not_exists, "IF NOT EXISTS"), name_sql(spec.name), _using_sql(spec)) for spec in statement.subtables
    )
    return f"CREATE TABLE {' '.join(subtables)}"


def _using_sql(spec: model.SubtableSpec) -> str:
    names = "" if spec.tag_names is None else _names(spec.tag_names)
    values = _listed(RENDERER.scalar_sql(value.value) for value in spec.tag_values)
    return _joined("USING", name_sql(spec.using), names, "TAGS", values)


@statement_sql.register
def _(statement: model.DropTable) -> str:
    what = "DROP STABLE" if statement.supertable else "DROP TABLE"
    return _joined(what, _when(statement.if_exists, "IF EXISTS"), ", ".join(map(name_sql, statement.names)))


@statement_sql.register
def _(statement: model.SetTags) -> str:
    values = ", ".join(f"{LEXIS.name_sql(name)} = {RENDERER.scalar_sql(value.value)}" for name, value in statement.values)
    return f"ALTER TABLE {name_sql(statement.table)} SET TAG {values}"


def _altered(statement: model.AlterTable, action: str, *parts: str) -> str:
    what = "STABLE" if statement.supertable else "TABLE"
    return _joined("ALTER", what, name_sql(statement.table), action, "TAG" if statement.is_tag else "COLUMN", *parts)


@statement_sql.register
def _(statement: model.AddColumn) -> str:
    return _altered(statement, "ADD", _column_sql(statement.column))


@statement_sql.register
def _(statement: model.DropColumn) -> str:
    return _altered(statement, "DROP", LEXIS.name_sql(statement.name))


@statement_sql.register
def _(statement: model.ModifyColumn) -> str:
    return _altered(statement, "MODIFY", _column_sql(statement.column))


@statement_sql.register
def _(statement: model.RenameColumn) -> str:
    return _altered(statement, "RENAME", LEXIS.name_sql(statement.name), LEXIS.name_sql(statement.new_name))


# Rows


@statement_sql.register
def _(statement: model.Insert) -> str:
    return f"INSERT INTO {' '.join(map(_block_sql, statement.blocks))}"


def _block_sql(block: model.InsertBlock) -> str:
    using = "" if block.using is None else _using_sql(block.using)
    columns = "" if block.columns is None else _names(block.columns)
    return _joined(name_sql(block.table), using, columns, "VALUES", " ".join(map(_row_sql, block.rows)))


def _row_sql(row: Sequence[model.RowValue]) -> str:
    return _listed(_now_sql(value) if isinstance(value, model.Now) else RENDERER.scalar_sql(value) for value in row)


def _now_sql(now: model.Now) -> str:
    base = "today()" if now.today else "now()"
    if not now.offset:
        return base
    length = abs(now.offset)
    unit = max((unit for unit in NANOSECONDS if length % NANOSECONDS[unit] == 0), key=NANOSECONDS.__getitem__)
    return f"{base} {'-' if now.offset < 0 else '+'} {length // NANOSECONDS[unit]}{unit}"


@statement_sql.register
def _(statement: model.Delete) -> str:
    where = "" if statement.where is None else f"WHERE {expression_sql(statement.where)}"
    return _joined("DELETE FROM", name_sql(statement.table), where)


# Looking


@statement_sql.register
def _(statement: model.Describe) -> str:
    return f"DESCRIBE {name_sql(statement.table)}"


@statement_sql.register
def _(statement: model.Show) -> str:
    what = statement.what.upper()
    if statement.name is not None:
        return _joined("SHOW", what, _when(what == "TAGS", "FROM"), name_sql(statement.name))
    database = "" if statement.database is None else f"FROM {LEXIS.name_sql(statement.database)}"
    like = "" if statement.like is None else f"LIKE {LEXIS.quote(statement.like)}"
    return _joined("SHOW", what, database, like)


@statement_sql.register
def _(statement: model.Select) -> str:
    return query_sql(statement.query)


@statement_sql.register
def _(statement: model.Explain) -> str:
    return f"EXPLAIN {statement_sql(statement.statement)}"


# Streams


@statement_sql.register
def _(statement: model.CreateStream) -> str:
    columns = "" if statement.columns is None else _listed(map(_target_column_sql, statement.columns))
    tags = "" if statement.tags is None else f"TAGS {_listed(map(_target_tag_sql, statement.tags))}"
    subtable = "" if statement.subtable is None else f"SUBTABLE({expression_sql(statement.subtable)})"
    return _joined(
        "CREATE STREAM",
        _when(statement.if_not_exists, "IF NOT EXISTS"),
        name_sql(statement.name),
        _options_sql(statement.options),
        "INTO",
        name_sql(statement.target),
        columns,
        tags,
        subtable,
        "AS",
        query_sql(statement.query),
    )


def _options_sql(options: StreamOptions) -> str:
    return _joined(
        _trigger_sql(options),
        _when(options.watermark != DEFAULTS.watermark, f"WATERMARK {options.watermark}"),
        _when(not options.ignore_expired, "IGNORE EXPIRED 0"),
        _when(not options.ignore_update, "IGNORE UPDATE 0"),
        _when(options.delete_mark is not None, f"DELETE_MARK {options.delete_mark}"),
        _when(options.fill_history, "FILL_HISTORY 1"),
        _when(options.fill_history_async, "ASYNC"),
    )


def _trigger_sql(options: StreamOptions) -> str:
    if options.trigger is DEFAULTS.trigger:
        return ""
    recalculate = "" if options.recalculate is None else f"RECALCULATE {options.recalculate}"
    delay = str(options.max_delay) if options.trigger is TriggerMode.MAX_DELAY else ""
    return _joined("TRIGGER", options.trigger, delay, recalculate)


def _target_column_sql(column: model.TargetColumn) -> str:
    return _joined(LEXIS.name_sql(column.name), _when(column.is_key, "PRIMARY KEY"))


def _target_tag_sql(tag: model.TargetTag) -> str:
    return LEXIS.name_sql(tag.name) if tag.column is None else _column_sql(tag.column)


@statement_sql.register
def _(statement: model.DropStream) -> str:
    return _joined("DROP STREAM", _when(statement.if_exists, "IF EXISTS"), name_sql(statement.name))


@statement_sql.register
def _(statement: model.PauseStream) -> str:
    return _joined("PAUSE STREAM", _when(statement.if_exists, "IF EXISTS"), name_sql(statement.name))


@statement_sql.register
def _(statement: model.ResumeStream) -> str:
    exists, untreated = _when(statement.if_exists, "IF EXISTS"), _when(statement.ignore_untreated, "IGNORE UNTREATED")
    return _joined("RESUME STREAM", exists, untreated, name_sql(statement.name))
