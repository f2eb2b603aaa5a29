"""Sensors that wait for streams, continuous queries and pipes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any, NoReturn

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException

from headrace.airflow.conditions import Condition, LagCondition, WindowClosedCondition
from headrace.airflow.hooks import DEFAULT_CONNECTION, HeadraceHook
from headrace.airflow.triggers import SUCCESS, ConditionTrigger


def default_deferrable() -> bool:
    """Return Airflow's setting `[operators] default_deferrable`."""
    return bool(conf.getboolean("operators", "default_deferrable", fallback=False))


class ConditionSensor(BaseSensorOperator):
    """Waits until a condition on a job holds; fails as soon as it can hold no more."""

    ui_color = "#e3ead9"

    def __init__(
        self,
        *,
        headrace_conn_id: str = DEFAULT_CONNECTION,
        deferrable: bool | None = None,
        poke_interval: float = 15,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.headrace_conn_id = headrace_conn_id
        self.deferrable = default_deferrable() if deferrable is None else deferrable

    @abstractmethod
    def condition(self) -> Condition:
        """Return the condition, once templates are rendered."""

    def poke(self, context: Any) -> bool:  # noqa: ARG002
        """Return whether the condition holds now."""
        with closing(HeadraceHook(self.headrace_conn_id, dialect="tdengine").get_conn()) as connection:
            verdict = self.condition().check(connection)
        self.log.info(verdict.text)
        return verdict.holds

    def execute(self, context: Any) -> Any:
        """Wait here, or in the triggerer if the sensor is deferrable."""
        if not self.deferrable:
            return super().execute(context)
        if self.poke(context):
            return None
        trigger = ConditionTrigger.of(self.headrace_conn_id, self.condition(), self.poke_interval)
        return self.defer(trigger=trigger, method_name="complete", timeout=timedelta(seconds=self.timeout))

    def complete(self, context: Any, event: Mapping[str, Any]) -> None:  # noqa: ARG002
        """End the task with what the trigger has found."""
        if event["status"] != SUCCESS:
            fail(event["text"])
        self.log.info(event["text"])


def fail(text: str) -> NoReturn:
    """Fail a task without retries."""
    raise AirflowFailException(text)


class HeadraceLagSensor(ConditionSensor):
    """Waits until a stream, continuous query or pipe is at most `max_lag` behind its source.

    Exactly one of `stream` (as `database.stream`), `cq` and `pipe` is given.
    """

    template_fields: Sequence[str] = ("stream", "cq", "pipe", "headrace_conn_id")

    def __init__(
        self, *, max_lag: timedelta, stream: str | None = None, cq: str | None = None, pipe: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.max_lag, self.stream, self.cq, self.pipe = max_lag, stream, cq, pipe
        self.kind, _ = only_job(stream=stream, cq=cq, pipe=pipe)

    def condition(self) -> LagCondition:
        """Return the condition."""
        return LagCondition(self.kind, getattr(self, self.kind), round(self.max_lag / timedelta(milliseconds=1)))


class HeadraceWindowClosedSensor(ConditionSensor):
    """Waits until a stream (`database.stream`) has closed and written every window that ends at or before `end`.

    With `end="{{ data_interval_end }}"`, the tasks that follow find the results of the run's whole interval. Late rows may still
    change them if the stream does not ignore them (`IGNORE EXPIRED 0`).
    """

    template_fields: Sequence[str] = ("stream", "end", "headrace_conn_id")

    def __init__(self, *, stream: str, end: datetime | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream, self.end = stream, end

    def condition(self) -> WindowClosedCondition:
        """Return the condition."""
        return WindowClosedCondition(self.stream, round(as_instant(self.end).timestamp() * 1000))


def only_job(**names: str | None) -> tuple[str, str]:
    """Return the kind and name of the one job that a task names.

    Raises:
        ValueError: It names none, or several.
    """
    named = [(kind, name) for kind, name in names.items() if name is not None]
    if len(named) != 1:
        raise ValueError(f"name exactly one of {', '.join(names)}")
    return named[0]


def as_instant(value: datetime | str) -> datetime:
    """Return an instant, which a template gives as text.

    Raises:
        ValueError: It is no date and time with an offset from UTC.
    """
    instant = datetime.fromisoformat(value) if isinstance(value, str) else value
    if instant.tzinfo is None:
        raise ValueError(f"{value} has no time zone; write for example {value}+00:00")
    return instant
