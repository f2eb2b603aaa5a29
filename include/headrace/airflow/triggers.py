"""Triggers of sensors and deferred queries. Each holds one connection, and uses it in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.exceptions import AirflowException
from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from headrace.airflow.conditions import CONDITIONS, Condition, Verdict
from headrace.airflow.hooks import HeadraceHook
from headrace.errors import OperationalError, TransientError

if TYPE_CHECKING:
    from headrace.service.connection import Connection

MAX_ROWS: Final = 10_000
"""Rows of a deferred query: they are handed over in Airflow's database."""
SUCCESS: Final = "success"
FAILED: Final = "failed"


class ConditionTrigger(BaseTrigger):
    """Fires once, when a condition on a job holds, or can hold no more."""

    def __init__(self, conn_id: str, condition: str, arguments: Mapping[str, Any], poke_interval: float) -> None:
        """Create the trigger.

        Args:
            conn_id: Airflow's connection.
            condition: A key of `CONDITIONS`.
            arguments: The fields of the condition.
            poke_interval: Seconds between two checks.
        """
        super().__init__()  # type: ignore[no-untyped-call]
        self.conn_id, self.condition, self.arguments, self.poke_interval = conn_id, condition, dict(arguments), poke_interval

    @classmethod
    def of(cls, conn_id: str, condition: Condition, poke_interval: float) -> ConditionTrigger:
        """Return the trigger of a condition."""
        (name,) = (name for name, kind in CONDITIONS.items() if isinstance(condition, kind))
        return cls(conn_id, name, asdict(condition), poke_interval)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and arguments from which Airflow recreates the trigger."""
        fields = ("conn_id", "condition", "arguments", "poke_interval")
        return "headrace.airflow.triggers.ConditionTrigger", {name: getattr(self, name) for name in fields}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Check the condition again and again, and yield one event."""
        condition, poller = CONDITIONS[self.condition](**self.arguments), Poller(self.conn_id)
        try:
            while True:
                verdict = await sync_to_async(poller.check, thread_sensitive=False)(condition)
                self.log.info(verdict.text)
                if verdict.holds:
                    break
                await asyncio.sleep(self.poke_interval)
        except AirflowException as error:
            yield TriggerEvent({"status": FAILED, "text": str(error)})  # type: ignore[no-untyped-call]
            return
        finally:
            await sync_to_async(poller.close, thread_sensitive=False)()
        yield TriggerEvent({"status": SUCCESS, "text": verdict.text})  # type: ignore[no-untyped-call]


class Poller:
    """Checks conditions over one connection, which is opened again after an snode was away."""

    def __init__(self, conn_id: str) -> None:
        self._hook = HeadraceHook(conn_id, dialect="tdengine")
        self._connection: Connection | None = None

    def check(self, condition: Condition) -> Verdict:
        """Return whether a condition holds; not, while the snode or the catalog cannot be reached."""
        try:
            if self._connection is None:
                self._connection = self._hook.get_conn()
            return condition.check(self._connection)
        except (TransientError, OperationalError) as error:
            self.close()
            return Verdict(False, f"trying again: {error.message}")

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(TransientError, OperationalError):
                connection.close()


class QueryTrigger(BaseTrigger):
    """Runs a query at an snode, and fires with its rows.

    A triggerer that takes over runs it again, so it must not write.
    """

    def __init__(
        self,
        conn_id: str,
        sql: str,
        parameters: Sequence[Any] | None = None,
        dialect: str | None = None,
        database: str | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.conn_id, self.sql, self.parameters, self.dialect, self.database = conn_id, sql, parameters, dialect, database

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and arguments from which Airflow recreates the trigger."""
        fields = ("conn_id", "sql", "parameters", "dialect", "database")
        return "headrace.airflow.triggers.QueryTrigger", {name: getattr(self, name) for name in fields}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Run the query in a thread, and yield one event with names and rows, or with the error."""
        try:
            names, rows = await sync_to_async(self._query, thread_sensitive=False)()
        except Exception as error:
            yield TriggerEvent({"status": FAILED, "text": f"{type(error).__name__}: {error}"})  # type: ignore[no-untyped-call]
            return
        yield TriggerEvent({"status": SUCCESS, "names": names, "rows": rows})  # type: ignore[no-untyped-call]

    def _query(self) -> tuple[list[str], list[tuple[Any, ...]]]:
        with HeadraceHook(self.conn_id, dialect=self.dialect, database=self.database).get_conn() as connection:
            cursor = connection.execute(self.sql, self.parameters)
            rows = cursor.fetchmany(MAX_ROWS + 1)
            if len(rows) > MAX_ROWS:
                raise AirflowException(f"the result has more than {MAX_ROWS} rows; add a LIMIT, or leave out deferrable")
            return [column[0] for column in cursor.description or ()], rows
