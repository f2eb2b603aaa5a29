"""Looks at an Airflow whose environment has the wheel, and prints what it found as JSON. Run in a process of that environment."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

BUNDLE = [{"name": "headrace", "classpath": "headrace.airflow.bundle.HeadraceDagBundle", "kwargs": {}}]


def main() -> None:
    """Print where the package is, and what Airflow knows of it."""
    os.environ["AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"] = json.dumps(BUNDLE)
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.plugins_manager import get_plugin_info
    from airflow.providers_manager import ProvidersManager

    import airflow
    import headrace
    import headrace_operators
    from headrace.settings import current

    (bundle,) = DagBundlesManager().get_all_dag_bundles()  # type: ignore[no-untyped-call]
    hook = ProvidersManager().hooks["headrace"]  # type: ignore[no-untyped-call]
    sys.path.insert(0, str(bundle.path))
    import headrace_dags

    found = {
        "airflow": airflow.__version__,
        "package": str(Path(str(headrace.__file__)).parent),
        "operators": headrace_operators.__file__,
        "hook": getattr(hook, "hook_class_name", None),
        "plugins": [plugin["name"] for plugin in get_plugin_info()],
        "bundle": str(bundle.path),
        "dags": sorted(name for name in vars(headrace_dags) if name.startswith("headrace_snode")),
        "executable": [path.name for path in sorted((current().project / "bin").iterdir()) if os.access(path, os.X_OK)],
        "jobs": sorted(path.name for path in (current().project / "spark_jobs").glob("*.py")),
    }
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    main()
