"""Alerts by e-mail and webhooks, with a mail server and a web server that receive them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import pytest
from aiosmtpd.controller import Controller

from headrace.catalog import Catalog
from headrace.model.clock import ManualClock, SystemClock
from headrace.model.jobs import JobProgress
from headrace.model.quarantine import QuarantineChange, QuarantineCode, QuarantinedRow, RowKey
from headrace.model.snodes import MAX_LEASE_MS
from headrace.runtime import alerts
from headrace.runtime.context import open_context
from headrace.runtime.dag_ids import ALERTS_DAG, definition_dag_id
from headrace.runtime.processes import find_free_port
from headrace.settings import Settings, current, load
from headrace_alerts import CheckAlerts, alert_on_deadline, alert_on_failure, describe_changes
from headrace_generators import generate
from tests.airflow.conftest import NOW
from tests.airflow.rest_server import Server
from tests.airflow.samples import LIVE, add_query, add_stream

pytestmark = pytest.mark.airflow


class Mailbox:
    """What a mail server has received."""

    def __init__(self) -> None:
        self.messages: list[EmailMessage] = []

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        message = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(message, EmailMessage)
        self.messages.append(message)
        return "250 OK"


@pytest.fixture
def mailbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mailbox]:
    """Run a mail server, which is that of Airflow's connection."""
    port, received = find_free_port(), Mailbox()
    controller = Controller(received, hostname="127.0.0.1", port=port)
    controller.start()
    extra = {"disable_ssl": True, "disable_tls": True, "from_email": "headrace@plant.example"}
    monkeypatch.setenv(
        "AIRFLOW_CONN_SMTP_DEFAULT", json.dumps({"conn_type": "smtp", "host": "127.0.0.1", "port": port, "extra": extra})
    )
    yield received
    controller.stop()


@dataclass
class TaskInstance:
    """The XComs of the runs of a task."""

    dag_id: str = "headrace_stream__power__avg_v"
    log_url: str = "http://airflow.example/log"
    pushed: Any = None

    def xcom_pull(self, **_: Any) -> Any:
        return self.pushed

    def xcom_push(self, _key: str, value: Any) -> None:
        self.pushed = json.loads(json.dumps(value))


def receive(monkeypatch: pytest.MonkeyPatch, **settings: str) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(f"HEADRACE_{name.upper()}", value)
    current.cache_clear()


def test_a_failed_job_is_reported_to_every_receiver(
    home: Settings, server: Server, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert home
    server.answers["POST", "/hook"] = (200, {})
    receive(monkeypatch, alert_webhook=f"{server.url}/hook", alert_email="a@plant.example, b@plant.example")
    alert_on_failure({"task_instance": TaskInstance(), "exception": RuntimeError("[DISK_FULL] no <space>")})
    subject = "[Headrace] headrace_stream__power__avg_v has failed"
    (mail,) = mailbox.messages
    assert (mail["Subject"], mail["To"], mail["From"]) == (subject, "a@plant.example, b@plant.example", "headrace@plant.example")
    assert "[DISK_FULL] no &lt;space&gt;" in mail.get_body().get_content()  # type: ignore[union-attr]
    text = f"{subject}\n[DISK_FULL] no <space>\nhttp://airflow.example/log"
    assert server.bodies("POST", "/hook") == [{"text": text}]


def test_a_receiver_that_fails_does_not_keep_an_alert_from_others(
    home: Settings, server: Server, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert home
    receive(monkeypatch, alert_webhook=f"{server.url}/nowhere", alert_email="a@plant.example")
    with pytest.raises(RuntimeError, match=r"WebhookNotifier: .*404"):
        alert_on_failure({"task_instance": TaskInstance(), "exception": None})
    assert len(mailbox.messages) == 1


def test_a_late_run_is_reported_if_its_schedule_has_created_it(
    home: Settings, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert home
    server.answers["POST", "/hook"] = (200, {})
    receive(monkeypatch, alert_webhook=f"{server.url}/hook")
    for run_type in ("backfill", "manual", "scheduled"):
        run = {"dag_id": "headrace_cq__means", "dag_run_id": f"{run_type}__1", "run_type": run_type}
        asyncio.run(alert_on_deadline({"dag_run": run}, late_s=300))
    (body,) = server.bodies("POST", "/hook")
    assert body["text"].startswith("[Headrace] headrace_cq__means is late\nIts run scheduled__1 has not ended 300 s after it")


def test_runs_of_queries_have_a_deadline_if_somebody_receives_it(
    catalog: Catalog, home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = add_query(catalog)
    (silent,) = generate(definition_dag_id(definition))
    receive(monkeypatch, alert_webhook="http://nowhere.example/hook", alert_lag_s="60")
    (watched,) = generate(definition_dag_id(definition))
    assert home
    assert not silent.deadline
    deadlines: Any = watched.deadline
    (deadline,) = deadlines
    assert (deadline.interval, deadline.callback.path) == (timedelta(seconds=60), "headrace_alerts.alert_on_deadline")


def test_without_receivers_nothing_is_sent(home: Settings) -> None:
    assert home
    alert_on_failure({})
    assert list(generate(ALERTS_DAG)) == []


def test_what_begins_and_ends_is_sent_once(
    catalog: Catalog, server: Server, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    server.answers["POST", "/hook"] = (200, {})
    receive(monkeypatch, alert_webhook=f"{server.url}/hook")
    assert [dag.dag_id for dag in generate(ALERTS_DAG)] == [ALERTS_DAG]
    add_stream(catalog, progress=JobProgress())
    task, ti = CheckAlerts(task_id="check"), TaskInstance()
    for _ in range(2):
        task.execute({"task_instance": ti})
    (sent,) = server.bodies("POST", "/hook")
    away = "snode default has no living driver: is not running; see the log of its DAG's task `driver`"
    assert sent["text"] == f"[Headrace] {away}\n{away}"
    clock.set(SystemClock().now())  # by which the task judges leases
    assert catalog.leases.acquire("default", "driver", MAX_LEASE_MS)
    task.execute({"task_instance": ti})
    assert [body["text"].splitlines()[-1] for body in server.bodies("POST", "/hook")] == [away, f"no longer: {away}"]
    assert clock


def seen_now(catalog: Catalog, clock: ManualClock, settings: Settings) -> Mapping[str, str]:
    return alerts.check(replace(open_context(settings, clock), catalog=catalog), {}).alerts


def test_jobs_that_are_behind_are_found(catalog: Catalog, clock: ManualClock, home: Settings) -> None:
    job = add_stream(catalog, progress=replace(LIVE, pending_since=NOW - 5_000))
    assert seen_now(catalog, clock, load(home=home.home_path, alert_lag_s=1))[f"behind {job}"].startswith(
        "stream power.avg_v is 5 s behind"
    )
    assert f"behind {job}" not in seen_now(catalog, clock, load(home=home.home_path, alert_lag_s=10))


def hold_row(catalog: Catalog, job: str, batch: int) -> None:
    row = QuarantinedRow(RowKey("d1", batch), batch, QuarantineCode.FUTURE, "too far ahead", {}, 1, 0)
    catalog.quarantine.commit(job, batch, QuarantineChange((row,)))


def test_a_quarantine_is_an_alert_while_it_has_rows(catalog: Catalog, clock: ManualClock, home: Settings) -> None:
    key = f"quarantine {(job := add_stream(catalog))}"
    context = replace(open_context(home, clock), catalog=catalog)
    hold_row(catalog, job, 1)
    first = alerts.check(context, {})
    assert "has 1 rows in quarantine" in first.alerts[key]
    second = alerts.check(context, first.held)
    assert (key in second.alerts, first.growing, second.growing) == (True, frozenset({key}), frozenset())
    hold_row(catalog, job, 2)
    assert alerts.check(context, second.held).growing == {key}


def test_a_receiver_that_fails_is_sent_an_alert_again_and_no_other(
    catalog: Catalog, server: Server, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive(monkeypatch, alert_webhook=f"{server.url}/hook", alert_email="a@plant.example")
    add_stream(catalog, progress=JobProgress())
    task, ti = CheckAlerts(task_id="check"), TaskInstance()
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"WebhookNotifier: .*404"):
            task.execute({"task_instance": ti})
    assert len(mailbox.messages) == 1
    failed = len(server.bodies("POST", "/hook"))
    server.answers["POST", "/hook"] = (200, {})
    for _ in range(2):
        task.execute({"task_instance": ti})
    assert (len(mailbox.messages), len(server.bodies("POST", "/hook")) - failed) == (1, 1)


def test_changes_are_described() -> None:
    assert describe_changes({"a": "A", "b": "B"}, {"b": "B", "c": "C"}) == ["C", "no longer: A"]
    assert describe_changes({"a": "A", "b": "B"}, {"a": "A", "b": "B"}, ["b"]) == ["B"]
