"""The DAG bundle of Headrace, for an Airflow that is not started by `headrace up`."""

from __future__ import annotations

from typing import Any

from airflow.dag_processing.bundles.local import LocalDagBundle

from headrace.settings import current


class HeadraceDagBundle(LocalDagBundle):
    """The folder with the DAG file that comes with the package, so that no path has to be configured."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(path=str(current().project / "dags"), **kwargs)
