"""Names of what Headrace has in Airflow: made the same way by the DAGs, by the client and by the page."""

from __future__ import annotations

import hashlib
import re
from typing import Final

SNODE_PREFIX: Final = "headrace_snode__"
STREAM_PREFIX: Final = "headrace_stream__"
BACKFILL_POOL: Final = "headrace_backfill"
"""The pool that `headrace up` makes; other Airflows use the one of the setting `backfill_pool`."""
SPARK_CONNECTION: Final = "headrace_spark"

# Airflow allows 250 characters.
LONGEST: Final = 250
# What may not stand in a DAG's id, and underscores that would blur where one name ends and the next begins.
ESCAPED: Final = re.compile(r"[^A-Za-z0-9_-]|(?<=_)_|^_|_$")


def snode_dag_id(name: str) -> str:
    """The DAG that keeps an snode's driver alive."""
    return _shortened(SNODE_PREFIX + _escaped(name))


def stream_dag_id(database: str, name: str) -> str:
    """The DAG that backfills and supervises a stream. Different streams have different ids."""
    return _shortened(f"{STREAM_PREFIX}{_escaped(database)}__{_escaped(name)}")


def _escaped(name: str) -> str:
    return ESCAPED.sub(lambda match: f".{ord(match[0]):x}.", name)


def _shortened(dag_id: str) -> str:
    if len(dag_id) <= LONGEST:
        return dag_id
    digest = hashlib.sha256(dag_id.encode()).hexdigest()[:16]
    return f"{dag_id[: LONGEST - 17]}.{digest}"
