"""What DAGs of jobs get from the setting `dag_options`: for teams, their queues, and the folders of the UI, which are tags."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

ALL: Final = "*"
"""Means every database, and for jobs without one."""


@dataclass(frozen=True, slots=True)
class DagOptions:
    """Options of the DAGs of a database's jobs; those that are None are Airflow's defaults, and `owner` the user of the job.

    Attributes:
        priority: Added to the priority of the tasks, of which supervision has 100.
        tags: Added to those of Headrace.
        access_control: Permissions by role, such as `{"plant": ["can_read", "can_edit"]}`.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    owner: str | None = None
    queue: str | None = None
    priority: int = 0
    tags: tuple[str, ...] = ()
    access_control: dict[str, tuple[str, ...]] | None = None


@functools.lru_cache(maxsize=4)
def parse_dag_options(text: str) -> Mapping[str, Mapping[str, Any]]:
    """Return options by database, as they were written.

    Raises:
        ValueError: The text is no JSON object of such options.
    """
    if not text.strip():
        return {}
    from pydantic import TypeAdapter, ValidationError

    try:
        TypeAdapter(dict[str, DagOptions]).validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"dag_options{f' at {place}' if place else ''}: {first['msg']}") from None
    options: Mapping[str, Mapping[str, Any]] = json.loads(text)
    return options


def options_of(text: str, database: str) -> DagOptions:
    """Return the options of a database: its own, and those of all databases where it has none; tags are added up."""
    parsed = parse_dag_options(text)
    common, own = parsed.get(ALL, {}), parsed.get(database, {})
    return DagOptions(**{**common, **own, "tags": (*common.get("tags", ()), *own.get("tags", ()))})
