"""The DAGs of streams."""

from __future__ import annotations

from headrace.runtime.dag_ids import job_dag_id
from headrace.streams.kind import STREAM


def stream_dag_id(database: str, name: str) -> str:
    return job_dag_id(STREAM, database, name)
