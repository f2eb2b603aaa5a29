"""From the catalog to DAGs. One definition that Airflow refuses takes no other down with it, nor does a catalog that is away."""

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
from headrace.model.jobs import DesiredState, JobDefinition, JobKind
from headrace.runtime.dag_ids import job_dag_id, job_of, snode_dag_id, snode_of
from headrace.runtime.login import read_json, write_private
from headrace.settings import Settings, current
from headrace_generators.broken import broken_dag
from headrace_generators.snode import snode_dag
from headrace_generators.stream import stream_dag

log = logging.getLogger(__name__)

CACHE: Final = "definitions.json"
BUILDERS: Final[dict[JobKind, Callable[[JobDefinition, Settings], DAG]]] = {JobKind.STREAM: stream_dag}
"""What makes the DAG of each kind of job."""


def generate(only: str | None = None) -> Iterator[DAG]:
    """Make every DAG of the catalog, or the one with the id `only`, for which nothing else is read."""
    settings = current()
    if only is not None and (snode := snode_of(only)) is not None:
        yield isolated(only, lambda: snode_dag(snode, settings))
        return
    definitions = read(settings, only)
    for name in sorted({settings.snode, *(definition.snode for definition in definitions)}):
        if only is None or only == snode_dag_id(name):
            yield isolated(snode_dag_id(name), lambda name=name: snode_dag(name, settings))  # type: ignore[misc]
    for definition in definitions:
        dag_id = job_dag_id(definition.kind, definition.database, definition.name)
        if only in (None, dag_id):
            yield isolated(dag_id, lambda definition=definition: BUILDERS[definition.kind](definition, settings))  # type: ignore[misc]


def isolated(dag_id: str, make: Callable[[], DAG]) -> DAG:
    """The DAG; one that says what is wrong where Airflow refuses it: an error of the file would take all its DAGs away."""
    try:
        dag = make()
        dag.validate()  # type: ignore[no-untyped-call]
    except Exception as error:
        log.exception("DAG %s cannot be made", dag_id)
        return broken_dag(dag_id, error)
    return dag


def read(settings: Settings, only: str | None = None) -> list[JobDefinition]:
    """Read the jobs that have not been dropped, or the one of a DAG.

    While the catalog is away they are those that were read last.
    """
    try:
        with Catalog.open(settings.catalog) as catalog:
            job = None if only is None else job_of(only)
            if job is not None:
                return one(catalog, *job)
            definitions = [record.definition for record in catalog.jobs.all() if record.desired is not DesiredState.DROPPED]
    except TransientError as error:
        if (cached := read_cache(settings)) is None:
            raise
        log.warning("the catalog is away, DAGs are made of what it last said: %s", error.message)
        return cached
    write_cache(settings, definitions)
    return definitions


def one(catalog: Catalog, kind: JobKind, database: str, name: str) -> list[JobDefinition]:
    """Return the job of a name; none if it was dropped."""
    with suppress(NotFoundError):
        record = catalog.jobs.get(database, name, kind)
        if record.desired is not DesiredState.DROPPED:
            return [record.definition]
    return []


def read_cache(settings: Settings) -> list[JobDefinition] | None:
    """The definitions that were read last from this catalog; None where there are none to be had."""
    try:
        content = read_json(cache_file(settings))
        if content.get("catalog") != fingerprint(settings):
            return None
        return [definition_from_row(fields) for fields in content["definitions"]]
    except (ConfigurationError, KeyError, TypeError) as error:
        log.warning("%s cannot be used: %s", cache_file(settings), error)
        return None


def write_cache(settings: Settings, definitions: list[JobDefinition]) -> None:
    """Keep the definitions for a time when the catalog is away."""
    content: dict[str, Any] = {
        "catalog": fingerprint(settings),
        "definitions": [definition_to_row(definition) for definition in definitions],
    }
    path = cache_file(settings)
    with suppress(ConfigurationError):
        if read_json(path) == content:
            return
    try:
        write_private(path, content)
    except OSError as error:
        log.warning("the definitions could not be kept for when the catalog is away: %s", error)


def cache_file(settings: Settings) -> Path:
    return settings.home_path / "airflow" / CACHE


def fingerprint(settings: Settings) -> str:
    """Tells catalogs apart without telling the password in a URL."""
    return hashlib.sha256(settings.catalog.encode()).hexdigest()
