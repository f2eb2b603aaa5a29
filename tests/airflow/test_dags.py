"""DAGs generated from the catalog."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from headrace.catalog import Catalog
from headrace.errors import TransientError
from headrace.model.jobs import DesiredState
from headrace.model.spark_options import Role
from headrace.model.tables import Database
from headrace.runtime.processes import find_free_port
from headrace.settings import Settings, current, load
from tests.airflow.samples import add_stream, repository
from tests.airflow.stream_dags import stream_dag_id

pytestmark = pytest.mark.airflow

STREAM = stream_dag_id("power", "avg_v")
SNODE = "headrace_snode__default"


def generated(only: str | None = None) -> dict[str, Any]:
    from headrace_generators import generate

    return {dag.dag_id: dag for dag in generate(only)}


def serialized(dag: Any) -> dict[str, Any]:
    from airflow.serialization.serialized_objects import DagSerialization

    return dict(DagSerialization.to_dict(dag))


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """Record all statements that any database executes."""
    executed: list[str] = []

    def listen(*arguments: Any) -> None:
        executed.append(arguments[2])

    event.listen(Engine, "before_cursor_execute", listen)
    yield executed
    event.remove(Engine, "before_cursor_execute", listen)


def test_the_file_generates_a_dag_per_snode_and_stream(catalog: Catalog) -> None:
    from airflow.dag_processing.dagbag import DagBag

    add_stream(catalog)
    bag = DagBag(str(repository() / "dags"))
    assert bag.import_errors == {}
    assert set(bag.dags) == {SNODE, STREAM}


def test_the_snode_has_a_dag_without_any_stream(home: Settings) -> None:
    assert set(generated()) == {SNODE}
    assert home.home_path.exists()


def test_a_dropped_stream_has_no_dag(catalog: Catalog) -> None:
    catalog.jobs.set_desired(add_stream(catalog), DesiredState.DROPPED)
    assert set(generated()) == {SNODE}


def test_the_process_of_a_task_generates_only_its_dag(catalog: Catalog) -> None:
    add_stream(catalog, "one")
    add_stream(catalog, "two")
    assert set(generated(stream_dag_id("power", "two"))) == {stream_dag_id("power", "two")}


def test_the_number_of_catalog_reads_does_not_depend_on_the_number_of_streams(catalog: Catalog, statements: list[str]) -> None:
    add_stream(catalog, "s0")
    statements.clear()
    generated()
    for_one_stream = len(statements)
    for number in range(1, 8):
        add_stream(catalog, f"s{number}")
    statements.clear()
    assert len(generated()) == 9
    assert len(statements) == for_one_stream


def test_a_task_reads_only_its_stream(catalog: Catalog, statements: list[str]) -> None:
    add_stream(catalog)
    add_stream(catalog, "other")
    statements.clear()
    assert set(generated(STREAM)) == {STREAM}
    (read,) = [statement for statement in statements if "FROM jobs" in statement]
    assert "jobs.name = ?" in read
    statements.clear()
    assert set(generated(SNODE)) == {SNODE}
    assert [statement for statement in statements if "FROM jobs" in statement] == []


def test_a_task_of_a_stream_that_was_dropped_has_no_dag(catalog: Catalog) -> None:
    catalog.jobs.set_desired(add_stream(catalog), DesiredState.DROPPED)
    assert generated(STREAM) == {}
    assert generated(stream_dag_id("no", "where")) == {}


def test_a_database_with_a_long_name_has_dags(catalog: Catalog) -> None:
    from dataclasses import replace

    from tests.airflow.samples import definition

    add_stream(catalog)
    catalog.databases.create(Database("d" * 120))
    catalog.jobs.create(replace(definition("long"), database="d" * 120))
    dag_id = stream_dag_id("d" * 120, "long")
    dag = generated(dag_id)[dag_id]
    assert {len(tag) for tag in dag.tags} == {8, 6, 100}
    assert set(generated()) == {SNODE, STREAM, dag_id}
    serialized(dag)


def test_a_definition_that_airflow_rejects_does_not_affect_others(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from airflow.dag_processing.dagbag import DagBag

    from headrace_generators import job_options
    from tests.airflow.samples import definition

    add_stream(catalog)
    catalog.databases.create(Database("bad"))
    catalog.jobs.create(replace(definition("long"), database="bad"))
    monkeypatch.setattr(job_options, "dag_tag", lambda name: name * 101 if name == "bad" else name)
    bag = DagBag(str(repository() / "dags"))
    assert bag.import_errors == {}
    bad = bag.dags.pop(stream_dag_id("bad", "long"))
    assert set(bag.dags) == {SNODE, STREAM}
    assert bag.dags[STREAM].tags == {"headrace", "stream", "power"}
    assert bad.tags == {"headrace", "broken"}
    assert "tag cannot be longer than 100 characters" in str(bad.doc_md)


def test_the_dag_of_a_bad_definition_fails_with_the_reason() -> None:
    from airflow.sdk.exceptions import AirflowFailException

    from headrace_generators.broken import BrokenDefinition, broken_dag

    dag = broken_dag("x", ValueError("no ```good```"))
    assert str(dag.doc_md).count("```") == 2
    task = dag.get_task("broken")
    assert isinstance(task, BrokenDefinition)
    with pytest.raises(AirflowFailException, match="ValueError: no"):
        task.execute({})
    serialized(dag)


@pytest.fixture
def unavailable(home: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """Provide settings with a catalog URL on which no server listens."""
    monkeypatch.setenv("HEADRACE_CATALOG_URL", f"postgresql://nobody@127.0.0.1:{find_free_port()}/none")
    current.cache_clear()
    yield load(home=home.home)
    current.cache_clear()


def test_while_the_catalog_is_unavailable_the_dags_are_cached(unavailable: Settings) -> None:
    from headrace_generators.definitions import cache_file, write_cache
    from tests.airflow.samples import definition

    write_cache(unavailable, [definition()], ["snode2"])
    assert set(generated()) == {SNODE, "headrace_snode__snode2", STREAM}
    assert set(generated(STREAM)) == {STREAM}
    assert cache_file(unavailable).stat().st_mode & 0o777 == 0o600


def test_definitions_are_cached_when_they_are_read(catalog: Catalog, home: Settings) -> None:
    from headrace_generators.definitions import read_cache

    assert read_cache(home) is None
    add_stream(catalog)
    generated()
    catalog.members.create(2, "default")
    generated()
    assert read_cache(home) == ([catalog.jobs.get("power", "avg_v", "stream").definition], ["default", "snode2"])
    catalog.jobs.set_desired("id-avg_v", DesiredState.DROPPED)
    generated()
    assert read_cache(home) == ([], ["default", "snode2"])


@pytest.mark.parametrize("content", [None, "{", '{"catalog": "another", "definitions": []}', '{"definitions": 5}'])
def test_without_a_cache_an_unavailable_catalog_is_an_error(unavailable: Settings, content: str | None) -> None:
    from headrace_generators.definitions import cache_file

    if content is not None:
        cache_file(unavailable).parent.mkdir(parents=True, exist_ok=True)
        cache_file(unavailable).write_text(content)
    with pytest.raises(TransientError):
        generated()


def test_importing_the_dags_imports_no_spark(catalog: Catalog) -> None:
    add_stream(catalog)
    program = "import sys, headrace_dags; print([name for name in ('pyspark', 'py4j', 'deltalake') if name in sys.modules])"
    folders = ":".join(str(repository() / folder) for folder in ("dags", "plugins"))
    outcome = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"import sys; sys.path[:0] = {folders!r}.split(':'); {program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert outcome.stdout.strip().splitlines()[-1] == "[]"


def test_a_dag_is_always_generated_identically(catalog: Catalog) -> None:
    """Otherwise Airflow would record a new version every few seconds."""
    stream = add_stream(catalog)
    first = {name: serialized(dag) for name, dag in generated().items()}
    catalog.jobs.set_desired(stream, DesiredState.PAUSED)
    assert {name: serialized(dag) for name, dag in generated().items()} == first


def test_tasks_run_in_the_order_history_activation_supervision(catalog: Catalog) -> None:
    add_stream(catalog)
    dag = generated()[STREAM]
    order = {task.task_id: set(task.downstream_task_ids) for task in dag.tasks}
    assert order == {
        "plan_history": {"fill_history"},
        "fill_history": {"activate"},
        "activate": {"supervise"},
        "supervise": set(),
    }


def test_supervision_starts_in_the_triggerer_and_holds_no_worker(catalog: Catalog) -> None:
    stream = add_stream(catalog)
    task = generated()[STREAM].get_task("supervise")
    assert task.start_from_trigger
    assert task.start_trigger_args.trigger_cls == "headrace_supervision.JobTrigger"
    assert task.start_trigger_args.trigger_kwargs == {"job_id": stream}


def test_a_policy_gives_the_supervision_of_every_stream_a_callback(catalog: Catalog, home: Settings, tmp_path: Path) -> None:
    """Put the file of the guide where Airflow reads it."""
    add_stream(catalog)
    guide = (repository() / "docs" / "guides" / "monitor.md").read_text()
    (policy,) = [block.partition("```")[0] for block in guide.split("```python\n") if "def task_policy" in block]
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "airflow_local_settings.py").write_text(policy)
    program = (
        "from airflow.dag_processing.dagbag import DagBag\n"
        f"dag = DagBag({str(repository() / 'dags')!r}).dags[{STREAM!r}]\n"
        "print([callback.__name__ for callback in dag.get_task('supervise').on_failure_callback])\n"
    )
    outcome = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={
            **os.environ,
            "AIRFLOW_HOME": str(tmp_path),
            "HEADRACE_HOME": str(home.home_path),
            "PYTHONPATH": str(repository() / "dags"),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert outcome.stdout.strip().splitlines()[-1] == "['alert_on_failure', 'alert']"


def test_the_documentation_of_a_dag_shows_the_streams_statement(catalog: Catalog) -> None:
    add_stream(catalog)
    dag = generated()[STREAM]
    assert catalog.jobs.get("power", "avg_v", "stream").definition.sql in dag.doc_md
    assert "power.meters" in dag.doc_md


def test_a_statement_cannot_end_its_code_block() -> None:
    from dataclasses import replace

    from headrace_generators.stream import format_doc
    from tests.airflow.samples import definition

    shown = format_doc(replace(definition(), sql="SELECT '```'\n<script>"))
    assert shown.count("```") == 2


def test_the_documentation_of_a_dag_hides_the_tokens_of_receivers() -> None:
    from dataclasses import replace

    from headrace_generators.stream import format_doc
    from tests.airflow.samples import definition

    shown = format_doc(replace(definition(), sql="CREATE STREAM … NOTIFY ('wss://h.example/a?token=secret')"))
    assert "('wss://h.example/**************')" in shown


@pytest.mark.parametrize(
    "conf",
    [
        {"from": "2026-01-01T00:00:00+00:00", "to": "2026-01-02T00:00:00Z", "chunk_minutes": 60},
        {"chunk_rows": 1000},
        {},
    ],
)
def test_the_form_accepts(catalog: Catalog, conf: dict[str, Any]) -> None:
    add_stream(catalog)
    form = generated()[STREAM].params.__deepcopy__({})
    form.update(conf)
    assert {name: value for name, value in form.validate().items() if value is not None} == conf


@pytest.mark.parametrize("conf", [{"from": 5}, {"chunk_rows": 0}, {"chunk_minutes": "many"}])
def test_the_form_rejects(catalog: Catalog, conf: dict[str, Any]) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    add_stream(catalog)
    form = generated()[STREAM].params.__deepcopy__({})
    with pytest.raises(ParamValidationError):
        form.update(conf)


@pytest.mark.parametrize("is_in_airflow", [True, False])
@pytest.mark.usefixtures("home")
def test_a_dag_of_an_snode_waits_if_another_manager_runs_drivers(is_in_airflow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_SNODES_IN_AIRFLOW", str(is_in_airflow))
    current.cache_clear()
    assert generated()[SNODE].is_paused_upon_creation is not is_in_airflow


def test_the_drivers_task_is_guarded_and_retried(home: Settings) -> None:
    task = generated()[SNODE].get_task("driver")
    command = task._get_hook()._build_spark_submit_command(task.application)
    assert command[0] == str(home.project / "bin" / "spark-submit-guard")
    assert command[-3:] == ["--snode", "default", "--no-fill"]
    assert task.retries > 5
    assert task.retry_exponential_backoff


@pytest.mark.parametrize(
    ("connection", "error"),
    [
        ({"host": "local[*]"}, None),
        ({"host": "spark://elsewhere", "port": 7077}, r"spark://elsewhere:7077, but HEADRACE_SPARK_MASTER is local\[\*\]"),
        ({"host": "local[*]", "extra": {"deploy-mode": "cluster"}}, "deploy mode cluster"),
    ],
    ids=["same", "other master", "cluster"],
)
@pytest.mark.usefixtures("home")
def test_a_connection_that_a_driver_would_not_follow_is_rejected(
    monkeypatch: pytest.MonkeyPatch, connection: dict[str, Any], error: str | None
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    monkeypatch.setenv("AIRFLOW_CONN_HEADRACE_SPARK", json.dumps({"conn_type": "spark", **connection}))
    task = generated()[SNODE].get_task("driver")
    monkeypatch.setattr(type(task._get_hook()), "submit", lambda *_: None)  # a driver would run until it is stopped
    if error is None:
        task.execute({})
        return
    with pytest.raises(AirflowFailException, match=error):
        task.execute({})


def test_tasks_that_compute_have_a_time_limit_and_the_driver_has_none(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_TASK_TIMEOUT_S", "600")
    current.cache_clear()
    add_stream(catalog)
    dags = generated()
    assert dags[STREAM].get_task("fill_history").execution_timeout == timedelta(seconds=600)
    assert dags[SNODE].get_task("driver").execution_timeout is None


def test_the_driver_and_the_tasks_have_different_shares_of_a_cluster(catalog: Catalog) -> None:
    add_stream(catalog)
    dags = generated()
    assert dags[SNODE].get_task("driver").role is Role.SNODE
    assert dags[STREAM].get_task("fill_history").operator_class.role is Role.TASK


def test_names_that_need_quotes_have_dags(catalog: Catalog) -> None:
    add_stream(catalog, "Meine Stube.ü")
    (dag_id,) = set(generated()) - {SNODE}
    serialized(generated()[dag_id])
