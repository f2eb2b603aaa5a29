"""Executions of continuous queries: one row for each instant of a schedule that was executed."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    Named,
    String,
    Table,
    Text,
    TypedColumns,
    literal,
)

from headrace.catalog.rows.metadata import METADATA
from headrace.model.continuous_queries import ExecutionState


class ExecutionColumns(TypedColumns):
    """Columns of `executions`."""

    job_id: Named[str] = Column(String, primary_key=True)
    scheduled: Named[int] = Column(BigInteger, primary_key=True, autoincrement=False)
    start: Named[int] = Column(BigInteger)
    end: Named[int] = Column(BigInteger)
    state: Named[str]
    attempt: Named[int] = Column(Integer)
    holder: Named[str]
    rows: Named[int | None] = Column(BigInteger, nullable=True)
    started: Named[int | None] = Column(BigInteger, nullable=True)
    finished: Named[int | None] = Column(BigInteger, nullable=True)
    message: Named[str | None] = Column(Text, nullable=True)


EXECUTIONS = Table("executions", METADATA, ExecutionColumns, ForeignKeyConstraint(["job_id"], ["jobs.id"], ondelete="CASCADE"))
# The state is written into the statement, since a partial index only serves conditions that are its own.
IS_UNFINISHED = EXECUTIONS.c.state != literal(ExecutionState.DONE.value, literal_execute=True)
# Most executions are done, and those that are not are asked for all the time.
Index(
    "ix_executions_unfinished",
    EXECUTIONS.c.job_id,
    EXECUTIONS.c.scheduled,
    sqlite_where=IS_UNFINISHED,
    postgresql_where=IS_UNFINISHED,
)
