"""Builds DAGs from the catalog's definitions, even if one of them is invalid or the catalog is unavailable."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from airflow.sdk import DAG

from headrace.catalog import Catalog
from headrace.catalog.rows.jobs import definition_from_row, definition_to_row
from headrace.errors import ConfigurationError, NotFoundError, TransientError
from headrace.jobs.registry import kind_of
from headrace.model.jobs import DesiredState, JobDefinition
from headrace.runtime.dag_ids import (
    ALERTS_DAG,
    MAINTENANCE_DAG,
    definition_dag_id,
    job_from_dag_id,
    snode_dag_id,
    snode_from_dag_id,
)
from headrace.runtime.login import read_json, write_private
from headrace.settings import Settings, current
from headrace_alerts import has_receiver
from headrace_generators.alerts import alerts_dag
from headrace_generators.broken import broken_dag
from headrace_generators.maintenance import maintenance_dag
from headrace_generators.snode import snode_dag

log = logging.getLogger(__name__)

CACHE_FILE_NAME: Final = "definitions.json"


def generate(only: str | None = None) -> Iterator[DAG]:
    """Yield all DAGs of the catalog, or only the DAG with the id `only`, reading no other definition."""
    settings = current()
    if only is not None and (snode := snode_from_dag_id(only)) is not None:
        yield build_or_replace(only, lambda: snode_dag(snode, settings))
        return
    housekeeping = housekeeping_dags(settings)
    for dag_id, build in housekeeping.items():
        if only in (None, dag_id):
            yield build_or_replace(dag_id, build)
    if only in housekeeping:
        return
    definitions, members = read_catalog(settings, only)
    for name in sorted({*settings.own_snodes, *members, *(definition.snode for definition in definitions)}):
        if only is None or only == snode_dag_id(name):
            yield build_or_replace(snode_dag_id(name), lambda name=name: snode_dag(name, settings))  # type: ignore[misc]
    for definition in definitions:
        dag_id = definition_dag_id(definition)
        if only in (None, dag_id):
            yield build_or_replace(dag_id, lambda definition=definition: kind_of(definition).dag()(definition, settings))  # type: ignore[misc]


def housekeeping_dags(settings: Settings) -> dict[str, Callable[[], DAG]]:
    """Return what builds the DAGs that are there whatever the catalog has, by id."""
    builders: dict[str, Callable[[], DAG]] = {}
    if settings.maintenance_schedule:
        builders[MAINTENANCE_DAG] = lambda: maintenance_dag(settings)
    if has_receiver(settings):
        builders[ALERTS_DAG] = lambda: alerts_dag(settings)
    return builders


def build_or_replace(dag_id: str, build: Callable[[], DAG]) -> DAG:
    """Build a DAG, or a placeholder if that fails, since an error in the DAG file would remove all its DAGs."""
    try:
        dag = build()
        dag.validate()  # type: ignore[no-untyped-call]
    except Exception as error:
        log.exception("building DAG %s failed", dag_id)
        return broken_dag(dag_id, error)
    return dag


def read_catalog(settings: Settings, only: str | None = None) -> tuple[list[JobDefinition], list[str]]:
    """Return the definitions of all jobs that are not dropped, or of the one whose DAG has the id `only`, and the members.

    Members are the snodes that share jobs. While the catalog is unavailable, they are read from the cache.

    Raises:
        TransientError: The catalog is unavailable, and there is no cache.
    """
    try:
        with Catalog.open(settings.catalog) as catalog:
            job = None if only is None else job_from_dag_id(only)
            if job is not None:
                return find_definition(catalog, *job), []
            members = [member.name for member in catalog.members.all()]
            definitions = [record.definition for record in catalog.jobs.all() if record.desired is not DesiredState.DROPPED]
    except TransientError as error:
        if (cached := read_cache(settings)) is None:
            raise
        log.warning("catalog is unavailable, using cached definitions: %s", error.message)
        return cached
    write_cache(settings, definitions, members)
    return definitions, members


def find_definition(catalog: Catalog, kind: str, database: str, name: str) -> list[JobDefinition]:
    """Return a job's definition as a list, which is empty if the job was dropped."""
    with suppress(NotFoundError):
        record = catalog.jobs.get(database, name, kind)
        if record.desired is not DesiredState.DROPPED:
            return [record.definition]
    return []


def read_cache(settings: Settings) -> tuple[list[JobDefinition], list[str]] | None:
    """Return the definitions and members last read from this catalog, or None if the cache is missing or invalid."""
    try:
        content = read_json(cache_file(settings))
        if content.get("catalog") != fingerprint(settings):
            return None
        return [definition_from_row(fields) for fields in content["definitions"]], list(content["members"])
    except (ConfigurationError, KeyError, TypeError, ValueError) as error:
        log.warning("ignoring the cache %s: %s", cache_file(settings), error)
        return None


def write_cache(settings: Settings, definitions: list[JobDefinition], members: list[str]) -> None:
    """Cache the definitions and members, for use while the catalog is unavailable."""
    content: dict[str, Any] = {
        "catalog": fingerprint(settings),
        "definitions": [definition_to_row(definition) for definition in definitions],
        "members": members,
    }
    path = cache_file(settings)
    with suppress(ConfigurationError):
        if read_json(path) == content:
            return
    try:
        write_private(path, content)
    except OSError as error:
        log.warning("caching the definitions failed: %s", error)


def cache_file(settings: Settings) -> Path:
    """Return the path of the cache, in the home."""
    return settings.home_path / "airflow" / CACHE_FILE_NAME


def fingerprint(settings: Settings) -> str:
    """Return a hash that identifies the catalog; its URL may contain a password."""
    return hashlib.sha256(settings.catalog.encode()).hexdigest()
