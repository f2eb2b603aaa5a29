"""Every DAG of Headrace, made from the catalog: one for each snode, one for each stream.

One file, so that Airflow can be asked to read it again as soon as the catalog changes (it always knows the snode's DAG, and by
it the file). Nothing of Spark is imported here. A task's process makes only the DAG it is part of.
"""

from __future__ import annotations

from airflow.sdk import DAG, get_parsing_context

from headrace_generators import generate

for dag in generate(get_parsing_context().dag_id):
    globals()[dag.dag_id] = dag

__all__ = ["DAG"]
