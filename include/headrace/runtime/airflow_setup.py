"""What an Airflow needs for Headrace's DAGs: a connection, pools, and DAGs that are not paused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headrace.catalog import Catalog
from headrace.errors import ConfigurationError, OperationalError
from headrace.model.jobs import DesiredState
from headrace.runtime.airflow_versions import BELOW, MINIMUM, is_supported
from headrace.runtime.dag_ids import BACKFILL_POOL, PREFIX, QUERY_POOL, SNODE_PREFIX, SPARK_CONNECTION, record_dag_id
from headrace.settings import Settings

if TYPE_CHECKING:
    from headrace.runtime.airflow import AirflowClient

SHARED_POOL: Final = "default_pool"
"""Airflow's own pool, whose slots are not Headrace's to set."""
DRIVERS: Final = "Spark drivers of Headrace's"


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool of Airflow, which limits how many drivers run at the same time."""

    name: str
    slots: int
    description: str


@dataclass(frozen=True, slots=True)
class Change:
    """Something to change in Airflow: what, and what does it."""

    description: str
    apply: Callable[[], None]


def check_version(client: AirflowClient) -> str:
    """Return the version of an Airflow; raise `ConfigurationError` if it is not supported."""
    version = str(client.version()["version"])
    if not is_supported(version):
        hint = f"use Airflow {MINIMUM} to {BELOW} (exclusive)"
        raise ConfigurationError(f"Airflow at {client.login.url} has the version {version}", hint=hint)
    return version


def used_pools(settings: Settings) -> list[Pool]:
    """Return the pools that DAGs use: those that `headrace up` creates, or in another Airflow those of the settings."""
    is_own = not settings.airflow_url
    backfills = Pool(BACKFILL_POOL if is_own else settings.backfill_pool, settings.backfill_slots, f"{DRIVERS} backfills")
    queries = Pool(QUERY_POOL if is_own else settings.cq_pool, settings.cq_threads, f"{DRIVERS} continuous queries")
    if backfills.name == queries.name:
        return [Pool(backfills.name, backfills.slots + queries.slots, f"{DRIVERS} backfills and continuous queries")]
    return [backfills, queries]


def spark_connection(settings: Settings) -> dict[str, str]:
    """Return the fields of the connection by which tasks submit drivers."""
    return {"conn_type": "spark", "host": settings.spark_master}


def leads_to(connection: Mapping[str, Any], master: str) -> bool:
    """Return whether tasks submit drivers to a Spark master by a connection, whose host may have the port or not."""
    host, port = connection.get("host"), connection.get("port")
    return connection["conn_type"] == "spark" and (f"{host}:{port}" if port else host) == master


def needed_changes(settings: Settings, client: AirflowClient) -> Iterator[Change]:
    """Yield what is to be changed in Airflow, each change before the next one is looked for.

    Raises:
        OperationalError: Airflow cannot be reached, refuses a request, or does not have the DAGs of the catalog.
    """
    connection = client.connection(SPARK_CONNECTION)
    if connection is None or not leads_to(connection, settings.spark_master):
        verb, fields = "create" if connection is None else "update", {**spark_connection(settings), "port": None}
        apply = partial(client.set_connection, SPARK_CONNECTION, fields, exists=connection is not None)
        yield Change(f"{verb} the connection {SPARK_CONNECTION}, to {settings.spark_master}", apply)
    for pool in used_pools(settings):
        record = None if pool.name == SHARED_POOL else client.pool(pool.name)
        if pool.name != SHARED_POOL and (record is None or record["slots"] != pool.slots):
            text = f"{'create' if record is None else 'update'} the pool {pool.name}, with {pool.slots} slots"
            yield Change(text, partial(client.set_pool, pool.name, pool.slots, pool.description))
    for dag_id in paused_dags(settings, client):
        yield Change(f"unpause the DAG {dag_id}", partial(client.unpause, dag_id))


def paused_dags(settings: Settings, client: AirflowClient) -> list[str]:
    """Return Headrace's DAGs that should run and are paused; raise `OperationalError` if Airflow lacks DAGs."""
    dags = {str(dag["dag_id"]): bool(dag["is_paused"]) for dag in client.dags(PREFIX)}
    with Catalog.open(settings.catalog) as catalog:
        jobs = [record for record in catalog.jobs.all() if record.desired is not DesiredState.DROPPED]
    missing = [dag_id for dag_id in sorted(map(record_dag_id, jobs)) if dag_id not in dags]
    if not dags or missing:
        errors = [error for error in client.import_errors() if "headrace" in error.lower()]
        what = f"{len(missing)} DAGs such as {missing[0]}" if dags else "any DAGs of Headrace"
        raise OperationalError(
            f"Airflow at {client.login.url} does not have {what} yet"
            + "".join(f"; import error: {error[:500]}" for error in errors[:1]),
            hint="wait until it has parsed them; if it never does, add the DAG bundle to [dag_processor] "
            "dag_bundle_config_list, and give all components of Airflow the settings of this catalog",
        )
    runs_snodes = settings.snodes_in_airflow
    return [name for name, is_paused in sorted(dags.items()) if is_paused and (runs_snodes or not name.startswith(SNODE_PREFIX))]
