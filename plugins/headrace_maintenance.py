"""Operators of the maintenance DAG."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from headrace.settings import current
from headrace_operators import open_runtime


class MaintainTables(BaseOperator):
    """Drops tables whose TTL has passed, compacts small files, and removes history that nothing needs. Spark is for a metastore."""

    ui_color = "#dfe6ee"

    def execute(self, context: Any) -> dict[str, int]:  # noqa: ARG002
        """Maintain all tables, and return what was done in all."""
        from headrace.runtime import table_maintenance
        from headrace.runtime.table_removal import drop_expired

        with open_runtime() as runtime:
            try:
                dropped = list(drop_expired(runtime, None))
                results = table_maintenance.maintain(runtime)
            finally:
                runtime.tables.close()
        for name in dropped:
            self.log.info("dropped %s, whose TTL has passed", name)
        for result in results:
            if result.compacted or result.removed or result.kept:
                self.log.info("%s: %d files compacted, %d removed %s", result.table, result.compacted, result.removed, result.kept)
        compacted, removed = (sum(getattr(result, name) for result in results) for name in ("compacted", "removed"))
        return {"tables": len(results), "dropped": len(dropped), "compacted": compacted, "removed": removed}


class DeleteOldRuns(BaseOperator):
    """Deletes runs of Headrace's DAGs that ended long ago, by Airflow's API; skipped where `headrace up` does so itself."""

    ui_color = "#dfe6ee"

    def execute(self, context: Any) -> int:  # noqa: ARG002
        """Delete the runs, and return their number."""
        from headrace.runtime.airflow import PATIENT_TIMEOUT, AirflowClient

        settings = current()
        if not settings.airflow_url:
            raise AirflowSkipException("the scheduler of `headrace up` deletes old runs; elsewhere, set HEADRACE_AIRFLOW_URL")
        client = AirflowClient.find(settings, PATIENT_TIMEOUT)
        assert client is not None
        with client:
            return client.delete_ended_runs(datetime.now(UTC) - timedelta(days=settings.keep_runs_days))
