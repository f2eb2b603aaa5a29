"""What is changed in Airflow's database without Airflow, which takes seconds to import and offers no API for it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    DateTime,
    Engine,
    TableClause,
    column,
    create_engine,
    delete,
    event,
    exists,
    inspect,
    or_,
    select,
    table,
    update,
)

logger = logging.getLogger(__name__)

TIME: Final = DateTime(timezone=True)
JOBS: Final = table("job", column("id"), column("state"), column("end_date", TIME), column("latest_heartbeat", TIME))
"""A row for each process of a component, with its heartbeat."""
RUNS: Final = table(
    "dag_run",
    *(column(name) for name in ("id", "dag_id", "run_id", "run_type", "state")),
    column("logical_date", TIME),
    column("end_date", TIME),
)
TRIES: Final = table("task_instance_history", column("task_instance_id"), column("end_date", TIME))
LOG: Final = table("log", column("id"), column("dttm", TIME))
"""What users, tasks and components have done."""
AUTOMATED: Final = ("scheduled", "backfill")
BATCH: Final = 1_000
"""Rows that are deleted at once, so that Airflow need not wait long for its database."""
LOCK_SECONDS: Final = 60


@contextmanager
def open_database(url: str) -> Iterator[Engine]:
    """Open Airflow's database. Deletes cascade, in SQLite as well."""
    is_sqlite = url.startswith("sqlite")
    engine = create_engine(url, connect_args={"timeout": LOCK_SECONDS} if is_sqlite else {})
    if is_sqlite:
        event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA foreign_keys=ON"))
    try:
        yield engine
    finally:
        engine.dispose()


def has_known_columns(engine: Engine, *tables: TableClause) -> bool:
    """Return whether the database has the columns of tables above, as in the tested versions of Airflow; if not, log which."""
    inspector = inspect(engine)
    unknown = [
        f"{rows.name}.{one.name}"
        for rows in tables
        for one in rows.columns
        if not inspector.has_table(rows.name) or one.name not in {known["name"] for known in inspector.get_columns(rows.name)}
    ]
    if unknown:
        logger.warning("leaving Airflow's database as it is: it has no %s", ", ".join(unknown))
    return not unknown


def end_lost_components(url: str) -> None:
    """Record that the components that count as running have ended, of which no process may be alive.

    A new scheduler then runs interrupted tasks again at once, and a new triggerer takes over their triggers. Otherwise both would
    wait until the last heartbeats are half a minute old, and the scheduler even longer: it looks for such tasks only now and then.
    """
    ended = {"state": "failed", "end_date": datetime.now(UTC)}
    with open_database(url) as engine:
        if not has_known_columns(engine, JOBS):
            return  # A new scheduler and triggerer wait.
        with engine.begin() as connection:
            connection.execute(update(JOBS).where(JOBS.c.state == "running").values(ended))


def delete_old_rows(engine: Engine, before: datetime) -> int:
    """Delete what ended before an instant: runs with all that belongs to them, tries, events, processes; return how many rows.

    The latest run that a schedule or a backfill has made of a DAG stays, since Airflow continues from it. What still runs stays,
    unlike with `airflow db clean`, which goes by the start of a task: the driver of an snode may run for months.
    """
    later = RUNS.alias("later")
    has_successor = exists().where(
        later.c.dag_id == RUNS.c.dag_id, later.c.run_type.in_(AUTOMATED), later.c.logical_date > RUNS.c.logical_date
    )
    has_ended = RUNS.c.state.in_(("success", "failed")) & (RUNS.c.end_date < before)
    return (
        _delete(engine, RUNS, RUNS.c.id, has_ended & or_(RUNS.c.run_type.not_in(AUTOMATED), has_successor))
        + _delete(engine, TRIES, TRIES.c.task_instance_id, TRIES.c.end_date < before)
        + _delete(engine, LOG, LOG.c.id, LOG.c.dttm < before)
        + _delete(engine, JOBS, JOBS.c.id, JOBS.c.latest_heartbeat < before)
    )


def _delete(engine: Engine, rows: TableClause, key: ColumnElement[Any], condition: ColumnElement[bool]) -> int:
    some = select(key).where(condition).limit(BATCH)
    deleted = 0
    while True:
        with engine.begin() as connection:
            count = connection.execute(delete(rows).where(key.in_(some))).rowcount
        deleted += count
        if count < BATCH:
            return deleted


def run_names(engine: Engine) -> set[tuple[str, str]]:
    """Return the id of the DAG, and the own id, of all runs."""
    with engine.connect() as connection:
        return {(dag_id, run_id) for dag_id, run_id in connection.execute(select(RUNS.c.dag_id, RUNS.c.run_id))}
