"""What DAGs of jobs get from the setting `dag_options`: for teams, their queues, and the folders of the UI, which are tags."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

ALL: Final = "*"
"""Means every database, and for jobs without one."""


class DagOptions(BaseModel):
    """Options of the DAGs of a database's jobs; those that are None are Airflow's defaults, and `owner` the user of the job.

    Attributes:
        priority: Added to the priority of the tasks, of which supervision has 100.
        tags: Added to those of Headrace.
        access_control: Permissions by role, such as `{"plant": ["can_read", "can_edit"]}`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    owner: str | None = None
    queue: str | None = None
    priority: int = 0
    tags: tuple[str, ...] = ()
    access_control: dict[str, tuple[str, ...]] | None = None


OPTIONS: Final = TypeAdapter(dict[str, DagOptions])


@functools.lru_cache(maxsize=4)
def parse_dag_options(text: str) -> Mapping[str, DagOptions]:
    """Return options by database.

    Raises:
        ValueError: The text is no JSON object of such options.
    """
    if not text.strip():
        return {}
    try:
        return OPTIONS.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"dag_options{f' at {place}' if place else ''}: {first['msg']}") from None


def options_of(text: str, database: str) -> DagOptions:
    """Return the options of a database: its own, and those of all databases where it has none; tags are added up."""
    parsed = parse_dag_options(text)
    common, own = parsed.get(ALL, DagOptions()), parsed.get(database, DagOptions())
    merged = {**common.model_dump(exclude_unset=True), **own.model_dump(exclude_unset=True)}
    return DagOptions(**{**merged, "tags": (*common.tags, *own.tags)})
