"""Options that the DAGs of all jobs have: owner, tags, and what the setting `dag_options` says of the job's database."""

from __future__ import annotations

from typing import Any, Final

from headrace.model.dag_options import options_of
from headrace.model.jobs import JobDefinition
from headrace.runtime.dag_ids import dag_tag
from headrace.settings import Settings

OWNER: Final = "headrace"
"""Owner of DAGs that no user's statement has created."""


def job_options(definition: JobDefinition, settings: Settings, kind: str, **default_args: Any) -> dict[str, Any]:
    """Return arguments of a job's DAG; `kind` is the tag of its kind, and `default_args` are those of its tasks."""
    options = options_of(settings.dag_options, definition.database)
    own_tags = [OWNER, kind, *([dag_tag(definition.database)] if definition.database else [])]
    tasks: dict[str, Any] = {"owner": options.owner or definition.owner or OWNER, **default_args}
    if options.queue is not None:
        tasks["queue"] = options.queue
    if options.priority:
        tasks["priority_weight"] = 1 + options.priority
    arguments: dict[str, Any] = {"tags": [*own_tags, *map(dag_tag, options.tags)], "default_args": tasks}
    if options.access_control is not None:
        arguments["access_control"] = {role: {"DAGs": set(actions)} for role, actions in options.access_control.items()}
    return arguments
