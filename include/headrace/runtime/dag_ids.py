"""Names of what Headrace has in Airflow: made the same way by the DAGs, by the client and by the page."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from headrace.model.jobs import JobKind

SNODE_PREFIX: Final = "headrace_snode__"
STREAM_PREFIX: Final = "headrace_stream__"
PREFIXES: Final = {JobKind.STREAM: STREAM_PREFIX}
"""What the ids of the DAGs of a kind of job begin with."""
BACKFILL_POOL: Final = "headrace_backfill"
"""The pool that `headrace up` makes; other Airflows use the one of the setting `backfill_pool`."""
SPARK_CONNECTION: Final = "headrace_spark"

# Airflow allows 250 characters.
MAX_DAG_ID_CHARACTERS: Final = 250
MAX_TAG_LENGTH: Final = 100
# What may not stand in a DAG's id, and underscores that would blur where one name ends and the next begins.
ESCAPED: Final = re.compile(r"[^A-Za-z0-9_-]|(?<=_)_|^_|_$")
ESCAPE: Final = re.compile(r"\.([0-9a-f]+)\.")


def snode_dag_id(name: str) -> str:
    """The DAG that keeps an snode's driver alive."""
    return _shortened(SNODE_PREFIX + _escaped(name))


def job_dag_id(kind: JobKind, database: str, name: str) -> str:
    """Return the id of the DAG that runs and supervises a job. Different jobs have different ids."""
    return _shortened(f"{PREFIXES[kind]}{_escaped(database)}__{_escaped(name)}")


def stream_dag_id(database: str, name: str) -> str:
    """Return the id of the DAG that backfills and supervises a stream."""
    return job_dag_id(JobKind.STREAM, database, name)


def snode_of(dag_id: str) -> str | None:
    """The snode of a DAG; None where the id is not an snode's, or was shortened."""
    names = _names(dag_id, SNODE_PREFIX)
    return names[0] if len(names) == 1 else None


def job_of(dag_id: str) -> tuple[JobKind, str, str] | None:
    """Return the kind, database and name of the job of a DAG; None if the id is not a job's, or was shortened."""
    for kind, prefix in PREFIXES.items():
        names = _names(dag_id, prefix)
        if len(names) == 2:
            return kind, names[0], names[1]
    return None


def tag_of(name: str) -> str:
    """A DAG's tag for a name. Different names have different tags."""
    return _shortened(name, MAX_TAG_LENGTH)


def _names(dag_id: str, prefix: str) -> list[str]:
    """The names that an id was made of; none where it was shortened: what is left of them says no more which they were."""
    if not dag_id.startswith(prefix) or len(dag_id) >= MAX_DAG_ID_CHARACTERS:
        return []
    return [_unescaped(part) for part in dag_id.removeprefix(prefix).split("__")]


def _unescaped(text: str) -> str:
    return ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def _escaped(name: str) -> str:
    return ESCAPED.sub(lambda match: f".{ord(match[0]):x}.", name)


def _shortened(text: str, length: int = MAX_DAG_ID_CHARACTERS) -> str:
    """The text, its end replaced by a digest where it is longer."""
    if len(text) <= length:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{text[: length - 17]}.{digest}"
