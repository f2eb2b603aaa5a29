"""Operators that run statements, recompute ranges, and verify results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from airflow.providers.common.sql.hooks.handlers import fetch_all_handler
from airflow.providers.common.sql.operators.sql import SQLExecuteQueryOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from headrace.airflow.hooks import DEFAULT_CONNECTION, HeadraceHook
from headrace.airflow.sensors import default_deferrable, fail, only_job
from headrace.airflow.triggers import SUCCESS, QueryTrigger
from headrace.runtime.dag_ids import job_dag_id

COLOR = "#e3ead9"


class HeadraceSqlOperator(SQLExecuteQueryOperator):
    """Runs statements; the rows of the last one are its XCom.

    With `deferrable`, a query that is sent to an snode holds no worker while it runs. Other statements, and those of a connection
    without a host, run in the worker.
    """

    template_fields: Sequence[str] = (*SQLExecuteQueryOperator.template_fields, "dialect")
    ui_color = COLOR

    def __init__(
        self,
        *,
        headrace_conn_id: str = DEFAULT_CONNECTION,
        dialect: str | None = None,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(conn_id=headrace_conn_id, **kwargs)
        self.dialect = dialect
        self.deferrable = default_deferrable() if deferrable is None else deferrable

    def get_db_hook(self) -> HeadraceHook:
        """Return the hook, whether or not Airflow has the connection."""
        return HeadraceHook(self.conn_id, dialect=self.dialect, database=self.database)

    def execute(self, context: Any) -> Any:
        """Run the statements."""
        hook = self.get_db_hook()
        if not (self.deferrable and hook.is_remote and isinstance(self.sql, str) and is_query(self.sql, hook)):
            return super().execute(context)  # type: ignore[no-untyped-call]
        parameters = None if self.parameters is None else list(self.parameters)
        trigger = QueryTrigger(self.conn_id or DEFAULT_CONNECTION, self.sql, parameters, self.dialect, self.database)
        return self.defer(trigger=trigger, method_name="complete", timeout=self.execution_timeout)

    def complete(self, context: Any, event: Mapping[str, Any]) -> Any:  # noqa: ARG002
        """Return the rows of a deferred query."""
        if event["status"] != SUCCESS:
            raise AirflowException(event["text"])
        if not self.do_xcom_push:
            return None
        if self.handler is not fetch_all_handler:
            raise AirflowFailException("a deferrable query takes no handler of its own; leave one of them out")
        rows = [tuple(row) for row in event["rows"]]
        return self._process_output([rows], [[(name, *(None,) * 6) for name in event["names"]]])[-1]


def is_query(sql: str, hook: HeadraceHook) -> bool:
    """Return whether a text is one statement that reads."""
    from headrace.service.statement_kinds import returns_rows
    from headrace.sql import parse

    statements = hook.split_sql_string(sql)
    return len(statements) == 1 and returns_rows(parse(statements[0], hook.dialect_name))


class HeadraceBackfillOperator(TriggerDagRunOperator):
    """Recomputes a range of a stream or continuous query, or transfers one of a pipe again, by a run of its DAG.

    Exactly one of `stream` (as `database.stream`), `cq` and `pipe` is given; `start` and `end` may be templates. Waits for the run,
    in the triggerer if `deferrable`.
    """

    ui_color = COLOR

    def __init__(
        self,
        *,
        stream: str | None = None,
        cq: str | None = None,
        pipe: str | None = None,
        start: str | None = None,
        end: str | None = None,
        chunk_rows: int | None = None,
        wait_for_completion: bool = True,
        poke_interval: int = 15,
        **kwargs: Any,
    ) -> None:
        kind, job = only_job(stream=stream, cq=cq, pipe=pipe)
        form = {"from": start, "to": end, **({} if chunk_rows is None else {"chunk_rows": chunk_rows})}
        super().__init__(
            trigger_dag_id=dag_id_of(kind, job),
            conf={name: value for name, value in form.items() if value is not None},
            wait_for_completion=wait_for_completion,
            poke_interval=poke_interval,
            **kwargs,
        )


def dag_id_of(kind: str, job: str) -> str:
    """Return the id of the DAG of a job."""
    from headrace.airflow.conditions import KINDS

    database, _, name = job.rpartition(".")
    return job_dag_id(KINDS[kind], database, name)


class HeadraceVerifyOperator(BaseOperator):
    """Recomputes with DuckDB what a stream or continuous query has written, or a query, and fails at the first difference.

    Runs in the worker, which needs the catalog and the files of the home. Returns the number of rows compared.
    """

    template_fields: Sequence[str] = ("stream", "cq", "query", "start", "end", "headrace_conn_id")
    ui_color = COLOR

    def __init__(
        self,
        *,
        stream: str | None = None,
        cq: str | None = None,
        query: str | None = None,
        start: str | None = None,
        end: str | None = None,
        dialect: str | None = None,
        headrace_conn_id: str = DEFAULT_CONNECTION,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stream, self.cq, self.query, self.start, self.end = stream, cq, query, start, end
        self.dialect, self.headrace_conn_id = dialect, headrace_conn_id

    def execute(self, context: Any) -> int:  # noqa: ARG002
        """Verify, and return the number of rows compared."""
        hook = HeadraceHook(self.headrace_conn_id, dialect=self.dialect)
        with closing(hook.get_conn()) as connection:
            result = connection.verify(self.query, stream=self.stream, cq=self.cq, start=self.start, end=self.end)
        if result.difference is not None:
            fail(f"{self.stream or self.cq or 'the query'} differs from its recomputation: {result.difference.summary}")
        self.log.info("%d rows are equal; DuckDB took %.1f s", result.rows, result.seconds)
        if result.remark:
            self.log.info(result.remark)
        return result.rows
