"""Generates all DAGs from the catalog: one per snode, stream and continuous query.

A single file lets Headrace request that Airflow parses it again as soon as the catalog changes, since the snode's DAG, and with it
the file, always exists. Spark is not imported here. The process of a task generates only the task's own DAG.
"""

from __future__ import annotations

from airflow.sdk import DAG, get_parsing_context

from headrace.airflow.versions import check_airflow
from headrace_generators import generate

check_airflow()
for dag in generate(get_parsing_context().dag_id):
    globals()[dag.dag_id] = dag

__all__ = ["DAG"]
