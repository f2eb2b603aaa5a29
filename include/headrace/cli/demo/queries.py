"""The second act of the demonstration: a continuous query over the same readings, backfilled by Airflow."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from headrace.cli.console import progress_bar
from headrace.cli.demo.streams import are_close
from headrace.cli.output import show_table
from headrace.model.continuous_queries import ExecutionState
from headrace.queries.kind import CONTINUOUS_QUERY
from headrace.runtime.airflow import AirflowClient
from headrace.runtime.dag_ids import job_dag_id
from headrace.service.connection import Connection

NAME: Final = "sea_every_day"
DATABASE: Final = "root.sea_days"
TARGET: Final = f"{DATABASE}.buoy"
STATEMENT: Final = f"""CREATE CONTINUOUS QUERY {NAME} RESAMPLE EVERY 1d BEGIN
  SELECT avg(temperature) INTO {TARGET}(mean) FROM root.demo.sea.buoy GROUP BY (1d)
END"""
BACKFILL_SECONDS: Final = 300

Wait = Callable[[float, str, Callable[[], bool]], None]


def remove_query(connection: Connection) -> None:
    """Remove what an earlier demonstration left."""
    catalog = connection.session.context.catalog
    if any(record.definition.name == NAME for record in catalog.jobs.all(kind=CONTINUOUS_QUERY)):
        connection.execute(f"DROP CQ {NAME}")
    if DATABASE in catalog.trees.databases():
        connection.execute(f"DELETE DATABASE {DATABASE}")


class QueryAct:
    """A continuous query that reads the demonstration's table in the IoTDB dialect, as does the connection."""

    def __init__(self, connection: Connection, client: AirflowClient, wait_until: Wait) -> None:
        self.connection = connection
        self.client = client
        self.wait_until = wait_until
        self.dag_id = job_dag_id(CONTINUOUS_QUERY, "", NAME)

    def create(self) -> str:
        """Create the query, and return its statement."""
        self.connection.execute(STATEMENT)
        return STATEMENT

    def backfill(self, first: datetime, days: int) -> None:
        """Have Airflow execute the query for some days of the past, and wait for its runs."""
        with progress_bar(f"  {days} runs of {self.dag_id}") as progress:
            self.wait_until(BACKFILL_SECONDS, "Airflow did not read the DAG", lambda: self.client.dag(self.dag_id) is not None)
            self.client.backfill(self.dag_id, first, first + timedelta(days=days - 1))

            def is_done() -> bool:
                progress(self.done(), days)
                return self.done() >= days

            self.wait_until(BACKFILL_SECONDS, "the backfill is not complete", is_done)

    def done(self) -> int:
        """Return the number of executions that are done."""
        catalog = self.connection.session.context.catalog
        job = catalog.jobs.get("", NAME, CONTINUOUS_QUERY).definition
        return sum(execution.state is ExecutionState.DONE for execution in catalog.executions.all(job.id))

    def print_executions(self) -> None:
        cursor = self.connection.execute(f"SHOW CQ EXECUTIONS {NAME}")
        columns = [column[0] for column in cursor.description or ()]
        shown = [columns.index(name) for name in ("Start", "End", "State", "Rows", "DurationMs")]
        rows = [tuple(str(row[position]) for position in shown) for row in reversed(cursor.fetchall())]
        show_table(tuple(columns[position] for position in shown), rows)

    def compare(self, means: dict[datetime, float]) -> bool:
        """Return whether the query's result has these means by day, and no others."""
        rows = dict(self.connection.execute(f"SELECT mean FROM {TARGET}").fetchall())
        return rows.keys() == means.keys() and all(are_close(rows[day], mean) for day, mean in means.items())
