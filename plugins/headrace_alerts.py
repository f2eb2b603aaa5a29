"""Alerts by e-mail and webhooks, as the settings say.

They are sent when a job fails, when a run of a continuous query is late, and regularly for what fails no task.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any, Final

from airflow.providers.common.compat.notifier import BaseNotifier
from airflow.sdk import BaseOperator
from asgiref.sync import sync_to_async

from headrace.settings import Settings, current
from headrace_operators import open_runtime

SEEN: Final = "seen"
TIMEOUT_S: Final = 10.0
SCHEDULED: Final = "scheduled"
"""The type of runs that a schedule has created."""


class WebhookNotifier(BaseNotifier):
    """Posts `{"text": …}` to a URL, which Slack, Mattermost, Teams and others show as a message."""

    template_fields = ("url", "text")

    def __init__(self, *, url: str, text: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.url, self.text = url, text

    def notify(self, context: Any) -> None:  # noqa: ARG002
        """Post the text."""
        import httpx

        httpx.post(self.url, json={"text": self.text}, timeout=TIMEOUT_S).raise_for_status()


def send(settings: Settings, context: Any, subject: str, text: str) -> None:
    """Send an alert to every receiver of the settings; one that fails is logged by Airflow, and does not keep it from others."""
    errors = []
    for notifier in notifiers(settings, f"[Headrace] {subject}", text):
        try:
            notifier.notify(context)
        except Exception as error:
            errors.append(f"{type(notifier).__name__}: {error}")
    if errors:
        raise RuntimeError(f"an alert could not be sent: {'; '.join(errors)}")


def notifiers(settings: Settings, subject: str, text: str) -> list[BaseNotifier]:
    """Return a notifier for each receiver of the settings."""
    found: list[BaseNotifier] = []
    if url := settings.alert_webhook.get_secret_value():
        found.append(WebhookNotifier(url=url, text=f"{subject}\n{text}"))
    if settings.alert_email:
        from airflow.providers.smtp.notifications.smtp import SmtpNotifier

        receivers = [address.strip() for address in settings.alert_email.split(",")]
        content = f"<pre>{html.escape(text)}</pre>"
        found.append(SmtpNotifier(to=receivers, from_email=settings.alert_from or None, subject=subject, html_content=content))
    return found


def has_receiver(settings: Settings) -> bool:
    """Return whether the settings name a receiver of alerts."""
    return bool(settings.alert_email or settings.alert_webhook.get_secret_value())


def alert_on_failure(context: Any) -> None:
    """Send an alert for a job whose task has failed; a failure callback."""
    settings = current()
    if has_receiver(settings):
        ti = context["task_instance"]
        reason = str(context.get("exception") or "the task was ended")
        send(settings, context, f"{ti.dag_id} has failed", f"{reason}\n{ti.log_url}")


async def alert_on_deadline(context: Mapping[str, Any], late_s: int) -> None:
    """Send an alert for a scheduled run that has not ended in time; the callback of a deadline, in a triggerer.

    The runs of a backfill wait for each other, and somebody watches those that are triggered.
    """
    run = context["dag_run"]
    if run["run_type"] == SCHEDULED:
        text = f"Its run {run['dag_run_id']} has not ended {late_s} s after it was queued; see its task and the pool of its tasks."
        await sync_to_async(send)(current(), context, f"{run['dag_id']} is late", text)


class CheckAlerts(BaseOperator):
    """Compares what is wrong now with what was at the last check, and sends what has begun or ended since."""

    ui_color = "#f7e3d4"

    def execute(self, context: Any) -> list[str]:
        """Check, and return what is wrong now."""
        from headrace.runtime import alerts

        settings = current()
        before = self._last_check(context)
        with open_runtime() as runtime:
            seen = alerts.check(runtime, before["held"])
        lines = describe_changes(before["alerts"], seen.alerts)
        if lines:
            send(settings, context, lines[0], "\n".join(lines))
        context["task_instance"].xcom_push(SEEN, {"alerts": dict(seen.alerts), "held": dict(seen.held)})
        return list(seen.alerts.values())

    def _last_check(self, context: Any) -> dict[str, Any]:
        pulled = context["task_instance"].xcom_pull(task_ids=self.task_id, key=SEEN, include_prior_dates=True)
        last = pulled[-1] if isinstance(pulled, list) and pulled else pulled
        return last or {"alerts": {}, "held": {}}


def describe_changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return a line for each alert that has begun, and for each that has ended."""
    begun = [text for key, text in now.items() if key not in before]
    return begun + [f"no longer: {text}" for key, text in before.items() if key not in now]
