"""Alerts by e-mail and webhooks, as the settings say.

They are sent when a job fails, when a run of a continuous query is late, and regularly for what fails no task.
"""

from __future__ import annotations

import html
from collections.abc import Collection, Iterable, Mapping
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
    raise_failures([deliver(notifier, context) for notifier in notifiers(settings, subject, text).values()])


def deliver(notifier: BaseNotifier, context: Any) -> str:
    """Send an alert, and return why that failed; empty if it is sent."""
    try:
        notifier.notify(context)
    except Exception as error:
        return f"{type(notifier).__name__}: {error}"
    return ""


def raise_failures(reasons: Iterable[str]) -> None:
    """Raise an error if there are reasons why alerts could not be sent."""
    if failures := [reason for reason in reasons if reason]:
        raise RuntimeError(f"an alert could not be sent: {'; '.join(failures)}")


def notifiers(settings: Settings, subject: str, text: str) -> dict[str, BaseNotifier]:
    """Return a notifier for each receiver of the settings, by the kind of receiver."""
    subject = f"[Headrace] {subject}"
    found: dict[str, BaseNotifier] = {}
    if url := settings.alert_webhook.reveal():
        found["webhook"] = WebhookNotifier(url=url, text=f"{subject}\n{text}")
    if settings.alert_email:
        from airflow.providers.smtp.notifications.smtp import SmtpNotifier

        to = [address.strip() for address in settings.alert_email.split(",")]
        content = f"<pre>{html.escape(text)}</pre>"
        found["email"] = SmtpNotifier(to=to, from_email=settings.alert_from or None, subject=subject, html_content=content)
    return found


def has_receiver(settings: Settings) -> bool:
    """Return whether the settings name a receiver of alerts."""
    return bool(settings.alert_email or settings.alert_webhook.reveal())


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
        again = seen.growing - set(before["growing"])
        reported: dict[str, Mapping[str, str]] = {}
        reasons = []
        for receiver in notifiers(settings, "", ""):
            known = before["reported"].get(receiver, {})
            lines = describe_changes(known, seen.alerts, again)
            reason = deliver(notifiers(settings, lines[0], "\n".join(lines))[receiver], context) if lines else ""
            # What a receiver did not get is sent with the next check, to it alone.
            reported[receiver] = dict(known if reason else seen.alerts)
            reasons.append(reason)
        memory = {"reported": reported, "held": dict(seen.held), "growing": sorted(seen.growing)}
        context["task_instance"].xcom_push(SEEN, memory)
        raise_failures(reasons)
        return list(seen.alerts.values())

    def _last_check(self, context: Any) -> dict[str, Any]:
        pulled = context["task_instance"].xcom_pull(task_ids=self.task_id, key=SEEN, include_prior_dates=True)
        last = pulled[-1] if isinstance(pulled, list) and pulled else pulled
        return {"reported": {}, "held": {}, "growing": []} | (last or {})


def describe_changes(before: Mapping[str, str], now: Mapping[str, str], again: Collection[str] = ()) -> list[str]:
    """Return a line for each alert that has begun, or that is to be sent again, and for each that has ended."""
    begun = [text for key, text in now.items() if key not in before or key in again]
    return begun + [f"no longer: {text}" for key, text in before.items() if key not in now]
