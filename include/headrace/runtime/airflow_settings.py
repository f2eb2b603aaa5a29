"""The environment variables of the Airflow that `headrace up` runs. Its configuration file is never written."""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from sqlalchemy import URL, exc, make_url

from headrace.errors import ConfigurationError
from headrace.model.access import ADMINISTRATOR
from headrace.runtime.airflow_setup import spark_connection
from headrace.runtime.dag_ids import BACKFILL_POOL, QUERY_POOL, SPARK_CONNECTION
from headrace.runtime.login import USER, AirflowHome, read_json
from headrace.runtime.processes import SYSTEM_VARIABLE
from headrace.settings import Settings
from headrace.storage.spark.java import host_variables

PRELOADED: Final = (
    "airflow.executors.local_executor",
    "airflow.sdk.execution_time.task_runner",
    "headrace_operators",
    "headrace_queries",
    "headrace_supervision",
    "headrace.runtime.airflow_tasks",
    "headrace.runtime.query_runs",
    "headrace.sql.iotdb",
    "headrace.sql.tdengine",
    "pandas",
)
TRIGGERS: Final = 100_000
"""How many streams a triggerer supervises; with Airflow's default of 1000, others would wait for a second triggerer."""

FIXED_OPTIONS: Final[dict[str, dict[str, object]]] = {
    "core": {
        "load_examples": False,
        "executor": "headrace_executor.LocalExecutor",
        "simple_auth_manager_users": f"{USER}:admin",
    },
    "api": {"host": "127.0.0.1", "workers": 1, "instance_name": "Headrace"},
    # A task that has ended releases its slot within one second instead of five.
    "workers": {"min_heartbeat_interval": 1},
    "scheduler": {
        "parsing_cleanup_interval": 10,
        # The tasks of a lost scheduler run again within 45 seconds of its last heartbeat, the task of a lost worker within 70
        # seconds of its own. An API server that is started again may take nearly as long to accept heartbeats.
        "orphaned_tasks_check_interval": 15,
        "task_instance_heartbeat_timeout": 60,
        # Fork tasks from a process that has already imported the modules that they need.
        "mp_start_method": "forkserver",
        "mp_forkserver_preload": ",".join(PRELOADED),
    },
    # Each stream has a trigger. They share a snapshot of the catalog, so that their number costs little.
    "triggerer": {"capacity": TRIGGERS},
    # Headrace's file is parsed at once when the catalog changes, so the intervals matter only for changes made elsewhere.
    "dag_processor": {
        # One for the file of Headrace, and one for those of the user.
        "parsing_processes": 2,
        "refresh_interval": 30,
        "min_file_process_interval": 30,
        # A DAG that the file no longer has is removed after this. Below the interval, one slow parse would remove all.
        "stale_dag_threshold": 60,
    },
}


def airflow_environment(settings: Settings, ports: dict[str, int]) -> dict[str, str]:
    """Return the variables of all components.

    The ports are those of `api`, and of `worker_logs` and `trigger_logs`, which serve logs to the UI.
    """
    home = AirflowHome(settings)
    options = _options(settings, home, ports)
    return {**_inherited(), **_headrace_variables(settings), **options, "AIRFLOW_HOME": str(home.folder)}


def _inherited() -> dict[str, str]:
    """Return this process's environment without the variables of any other Airflow or Spark session."""
    foreign = ("AIRFLOW", "HEADRACE_AIRFLOW", "PYSPARK_GATEWAY", "_PYSPARK")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)}


def _headrace_variables(settings: Settings) -> dict[str, str]:
    binaries = Path(sys.executable).parent
    return {
        # A process title must not overwrite the environment block, in which we look for MARK.
        "SPT_NOENV": "1",
        SYSTEM_VARIABLE: str(settings.home_path),
        "PATH": os.pathsep.join((str(binaries), os.environ.get("PATH", os.defpath))),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONUNBUFFERED": "1",
        **host_variables(settings.spark_master),
        **settings_environment(settings),
        # Who may log in to this Airflow may read the home, and with it everything.
        "HEADRACE_PAGE_USERS": settings.page_users or json.dumps({USER: ADMINISTRATOR}),
        "HEADRACE_BACKFILL_POOL": BACKFILL_POOL,
        "HEADRACE_CQ_POOL": QUERY_POOL,
        f"AIRFLOW_CONN_{SPARK_CONNECTION.upper()}": json.dumps(spark_connection(settings)),
    }


def settings_environment(settings: Settings) -> dict[str, str]:
    """Return the settings as variables, so that child processes see the same ones in any working directory."""
    own = {name: value for name, value in settings.environment().items() if not name.startswith("HEADRACE_AIRFLOW_")}
    return own | {"HEADRACE_HOME": str(settings.home_path), "HEADRACE_PROJECT": str(settings.project.resolve())}


def own_dags_folder(settings: Settings) -> Path:
    """Return the folder for DAGs of the user, which run beside those of Headrace."""
    return settings.home_path / "dags"


def plugins_folder(settings: Settings, home: AirflowHome) -> Path:
    """Return the folder of plugins: that of the checkout, unless the installed package registers its plugin with Airflow itself.

    Airflow would report a plugin that it finds twice as an error. The user may put plugins into the other folder.
    """
    is_installed = bool(entry_points(group="airflow.plugins", name="headrace"))
    return home.folder / "plugins" if is_installed else settings.project / "plugins"


def dag_bundles(settings: Settings) -> list[dict[str, object]]:
    """Return the bundles of DAGs: that of Headrace, named as Airflow names `[core] dags_folder`, and that of the user."""
    local = "airflow.dag_processing.bundles.local.LocalDagBundle"
    return [
        {"name": "dags-folder", "classpath": local, "kwargs": {}},
        {"name": "own", "classpath": local, "kwargs": {"path": str(own_dags_folder(settings))}},
    ]


def database_options(settings: Settings, home: AirflowHome) -> dict[str, object]:
    """Return the section `database`: Airflow reaches PostgreSQL through one driver, with and without asyncio."""
    if not settings.airflow_database_url:
        return {"sql_alchemy_conn": f"sqlite:///{home.folder / 'airflow.db'}"}
    try:
        url = make_url(settings.airflow_database_url)
    except (exc.ArgumentError, ValueError):
        hint = "for example postgresql://user:password@host/database"
        raise ConfigurationError("HEADRACE_AIRFLOW_DATABASE_URL is not the URL of a database", hint=hint) from None
    if url.get_backend_name() != "postgresql":
        return {"sql_alchemy_conn": render(url)}
    with_driver = render(url.set(drivername="postgresql+psycopg"))
    return {"sql_alchemy_conn": with_driver, "sql_alchemy_conn_async": with_driver}


def render(url: URL) -> str:
    return url.render_as_string(hide_password=False)


def _options(settings: Settings, home: AirflowHome, ports: dict[str, int]) -> dict[str, str]:
    keys, logs = read_json(home.secrets), settings.home_path / "logs" / "airflow"
    url = f"http://127.0.0.1:{ports['api']}"
    own: dict[str, dict[str, object]] = {
        "core": {
            "dags_folder": settings.project / "dags",
            "plugins_folder": plugins_folder(settings, home),
            # The drivers of backfills and of continuous queries, and three for short tasks. Those of snodes are not counted.
            "parallelism": settings.backfill_slots + settings.cq_threads + 3,
            "fernet_key": keys["fernet_key"],
            "simple_auth_manager_passwords_file": home.passwords,
            "execution_api_server_url": f"{url}/execution/",
        },
        "dag_processor": {"dag_bundle_config_list": json.dumps(dag_bundles(settings))},
        "database": database_options(settings, home),
        "api": {"port": ports["api"], "base_url": url, "secret_key": keys["api_secret_key"]},
        "api_auth": {"jwt_secret": keys["jwt_secret"]},
        "logging": {
            "base_log_folder": logs,
            "dag_processor_child_process_log_directory": logs / "dag_processor",
            "worker_log_server_port": ports["worker_logs"],
            "trigger_log_server_port": ports["trigger_logs"],
        },
    }
    return {
        f"AIRFLOW__{section.upper()}__{name.upper()}": str(value)
        for sections in (FIXED_OPTIONS, own)
        for section, options in sections.items()
        for name, value in options.items()
    }
