"""Whether events are sent, and as whose: OpenLineage's own configuration, and the Airflow task that has started this process.

What imports the client library is left to others, since processes without a receiver have no use for it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from headrace.settings import Settings

NAMESPACE: Final = "OPENLINEAGE_NAMESPACE"
AIRFLOW_NAMESPACE: Final = "AIRFLOW__OPENLINEAGE__NAMESPACE"
PARENT: Final = "OPENLINEAGE_PARENT_ID"
"""The run in which this process runs: namespace, name of the job and id of the run, separated by slashes."""
CONFIGURATIONS: Final = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__TRANSPORT")
FILES: Final = (Path("openlineage.yml"), Path("~/.openlineage/openlineage.yml"))
DEFAULT_NAMESPACE: Final = "headrace"
DEFAULT_AIRFLOW_NAMESPACE: Final = "default"


def is_configured(settings: Settings, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether events are to be sent: the setting allows it, the client is installed, and a receiver is named."""
    if not settings.openlineage or environment.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    is_named = any(name.startswith(CONFIGURATIONS) for name in environment)
    return (is_named or any(file.expanduser().is_file() for file in FILES)) and find_spec("openlineage") is not None


def namespace(environment: Mapping[str, str] = os.environ) -> str:
    """Return the namespace of jobs."""
    return environment.get(NAMESPACE) or DEFAULT_NAMESPACE


def producer() -> str:
    """Return the URI of what makes events."""
    return f"urn:headrace:{version('headrace')}"


def parent_run(environment: Mapping[str, str] = os.environ) -> tuple[str, str, str] | None:
    """Return namespace, job and id of the run in which this process runs; None if there is none."""
    space, _, rest = environment.get(PARENT, "").partition("/")
    job, _, run = rest.rpartition("/")
    return (space, job, run) if space and job and run else None


def name_parent(task: Any, settings: Settings, environment: MutableMapping[str, str] = os.environ) -> None:
    """Tell processes that a task of Airflow starts, given its context, which run is their parent.

    It is the id that Airflow's own provider of OpenLineage gives the run of the task, whether that is installed or not.
    """
    if not is_configured(settings, environment):
        return
    from openlineage.client.uuid import generate_static_uuid

    instance, run = task["ti"], task["dag_run"]
    space = environment.get(AIRFLOW_NAMESPACE) or environment.get(NAMESPACE) or DEFAULT_AIRFLOW_NAMESPACE
    key = f"{space}.{instance.dag_id}.{instance.task_id}.{instance.try_number}.{instance.map_index}"
    id_ = generate_static_uuid(instant=run.logical_date or run.run_after, data=key.encode())
    environment[PARENT] = f"{space}/{instance.dag_id}.{instance.task_id}/{id_}"
