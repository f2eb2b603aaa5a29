"""Owners, tags, queues and permissions of the DAGs of jobs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from headrace.errors import ConfigurationError
from headrace.model.dag_options import DagOptions, options_of
from headrace.model.jobs import JobDefinition
from headrace.settings import Settings, load
from headrace_generators.stream import stream_dag
from tests.airflow.samples import definition

pytestmark = pytest.mark.airflow


def dag_of(home: Settings, options: dict[str, Any], owner: str = "vera") -> Any:
    job: JobDefinition = replace(definition(), owner=owner)
    return stream_dag(job, load(home=home.home_path, dag_options=json.dumps(options) if options else ""))


def test_a_dag_belongs_to_the_user_who_created_the_job(home: Settings) -> None:
    dag = dag_of(home, {})
    assert (dag.owner, dag.tags) == ("vera", {"headrace", "stream", "power"})
    assert dag_of(home, {}, owner="").owner == "headrace"


def test_options_of_the_database_come_before_those_of_all(home: Settings) -> None:
    common = {"owner": "team", "tags": ["plant/all"], "priority": 5}
    own = {"tags": ["plant/power"], "queue": "spark", "priority": 7, "access_control": {"plant": ["can_read", "can_edit"]}}
    dag = dag_of(home, {"*": common, "power": own, "other": {"queue": "nowhere"}})
    assert dag.tags == {"headrace", "stream", "power", "plant/all", "plant/power"}
    assert dag.owner == "team"
    assert dag.access_control == {"plant": {"DAGs": {"can_read", "can_edit"}}}
    plan = dag.get_task("plan_history")
    assert (plan.queue, plan.priority_weight) == ("spark", 8)
    assert dag.get_task("supervise").priority_weight == 100


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "dag_options: Invalid JSON"),
        ('{"power": {"colour": 1}}', r"dag_options at power\.colour: Unexpected keyword argument"),
    ],
)
def test_invalid_options_are_rejected(home: Settings, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load(home=home.home_path, dag_options=text)


def test_without_options_there_are_defaults() -> None:
    assert options_of("", "power") == DagOptions()
