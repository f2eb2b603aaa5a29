"""Names of Headrace's objects in Airflow, the same for the DAGs, the client and the page."""

from __future__ import annotations

import hashlib
import re
from typing import Final
from urllib.parse import quote

from headrace.jobs.registry import is_known, kind_of, kinds
from headrace.model.jobs import JobDefinition, JobRecord

PREFIX: Final = "headrace_"
SNODE_PREFIX: Final = "headrace_snode__"
ALERTS_DAG: Final = "headrace_alerts"
MAINTENANCE_DAG: Final = "headrace_maintenance"
UNKNOWN_PREFIX: Final = "headrace_unknown__"
"""The prefix of DAGs that show that the kind of their job is unknown."""
BACKFILL_POOL: Final = "headrace_backfill"
"""The pool that `headrace up` creates. Other Airflow installations use the setting `backfill_pool`."""
QUERY_POOL: Final = "headrace_cq"
"""The same for continuous queries, with the setting `cq_pool`."""
SPARK_CONNECTION: Final = "headrace_spark"
ASSET_PREFIX: Final = "headrace://"

# Airflow's limits.
MAX_DAG_ID_CHARACTERS: Final = 250
MAX_TAG_CHARACTERS: Final = 100
# Characters that a DAG's id may not have, and underscores that could be taken for the separator of two names.
ESCAPED: Final = re.compile(r"[^A-Za-z0-9_-]|(?<=_)_|^_|_$")
ESCAPE: Final = re.compile(r"\.([0-9a-f]+)\.")


def snode_dag_id(name: str) -> str:
    """Return the id of the DAG that keeps an snode's driver alive."""
    return _truncate(SNODE_PREFIX + _escape(name))


def job_dag_id(kind: str, database: str, name: str) -> str:
    """Return the id of the DAG that runs and supervises a job. Different jobs have different ids."""
    names = filter(None, (database, name))
    return _truncate(kind_of(kind).dag_prefix + "__".join(map(_escape, names)))


def definition_dag_id(definition: JobDefinition) -> str:
    """Return the id of a job's DAG, which only shows an error if its kind is unknown."""
    if not is_known(definition.kind):
        return _truncate(UNKNOWN_PREFIX + _escape(definition.id))
    return job_dag_id(definition.kind, definition.database, definition.name)


def record_dag_id(record: JobRecord) -> str:
    """Return the id of a job's DAG."""
    return definition_dag_id(record.definition)


def table_uri(database: str, table: str) -> str:
    """Return the URI of the asset of a table, which streams write."""
    return f"{ASSET_PREFIX}table/{quote(database, safe='')}/{quote(table, safe='')}"


def asset_uri(definition: JobDefinition) -> str:
    """Return the URI of the asset that a job updates: the target of a stream, or what another job writes."""
    if definition.target is not None and definition.target.name:
        return table_uri(definition.target.database, definition.target.name)
    names = filter(None, (definition.database, definition.name))
    return ASSET_PREFIX + "/".join(quote(part, safe="") for part in (definition.kind.replace(" ", "-"), *names))


def snode_from_dag_id(dag_id: str) -> str | None:
    """Return the snode of a DAG; None if the id is not an snode's, or was truncated."""
    names = _names(dag_id, SNODE_PREFIX)
    return names[0] if len(names) == 1 else None


def job_from_dag_id(dag_id: str) -> tuple[str, str, str] | None:
    """Return the kind, database and name of the job of a DAG; None if the id is not a job's, or was truncated."""
    for kind in kinds():
        match _names(dag_id, kind.dag_prefix):
            case [name]:
                return kind.name, "", name
            case [database, name]:
                return kind.name, database, name
    return None


def dag_tag(name: str) -> str:
    return _truncate(name, MAX_TAG_CHARACTERS)


def _names(dag_id: str, prefix: str) -> list[str]:
    """Return the names that an id was made of; none if it was truncated, since it is then ambiguous."""
    if not dag_id.startswith(prefix) or len(dag_id) >= MAX_DAG_ID_CHARACTERS:
        return []
    return [ESCAPE.sub(lambda match: chr(int(match[1], 16)), part) for part in dag_id.removeprefix(prefix).split("__")]


def _escape(name: str) -> str:
    return ESCAPED.sub(lambda match: f".{ord(match[0]):x}.", name)


def _truncate(text: str, length: int = MAX_DAG_ID_CHARACTERS) -> str:
    """Return the text, truncated and with a digest as suffix if it is longer than `length`."""
    if len(text) <= length:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{text[: length - 17]}.{digest}"
