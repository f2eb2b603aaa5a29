"""The alerts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

CRITICAL: Final = "critical"
WARNING: Final = "warning"


@dataclass(frozen=True)
class Alert:
    """An alert: it fires when `expression` has had samples for `minutes`. Texts may use Prometheus's templates."""

    name: str
    expression: str
    minutes: int
    severity: str
    summary: str
    action: str

    def rule(self) -> dict[str, Any]:
        """Return the rule of Prometheus."""
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": f"{self.minutes}m",
            "labels": {"severity": self.severity},
            "annotations": {"summary": self.summary, "description": self.action},
        }


def alerts(max_lag: int) -> Sequence[Alert]:
    """Return all alerts; `max_lag` is in seconds."""
    return (*snode_alerts(), *stream_alerts(max_lag), *query_alerts(max_lag), *pipe_alerts(max_lag), *trigger_alerts())


def snode_alerts() -> Sequence[Alert]:
    """Return the alerts about snodes and the catalog."""
    return (
        Alert(
            "HeadraceSnodeAway",
            'absent(headrace_lease_epoch) or increase(headrace_lease_epoch[15m]) > 3 or up{job="headrace"} == 0',
            2,
            CRITICAL,
            "No snode answers, or its driver restarts again and again",
            "Look at the log of the task `driver` of the snode's DAG, and at SHOW SNODES.",
        ),
        Alert(
            "HeadraceSlowBatch",
            "headrace_slow_batches > 0",
            5,
            WARNING,
            "A micro-batch of snode {{ $labels.snode }} takes unusually long",
            "SHOW STREAMS names the stream.",
        ),
        Alert(
            "HeadraceCatalogAway",
            "headrace_catalog_away_seconds > 30",
            1,
            CRITICAL,
            "The catalog's database has not answered for {{ $value | humanizeDuration }}",
            "Streams continue, but statements and changes wait.",
        ),
    )


def stream_alerts(max_lag: int) -> Sequence[Alert]:
    """Return the alerts about streams."""
    stream = "{{ $labels.database }}.{{ $labels.stream }}"
    return (
        Alert(
            "HeadraceStreamStopped",
            'headrace_streams{state="STOPPED"} > 0',
            1,
            CRITICAL,
            "{{ $value }} streams of snode {{ $labels.snode }} are STOPPED",
            "SHOW STREAMS says why, and what to do.",
        ),
        Alert(
            "HeadraceStreamBehind",
            f"headrace_stream_lag_seconds > {max_lag}",
            5,
            WARNING,
            f"Stream {stream} is {{{{ $value | humanizeDuration }}}} behind",
            "Rows arrive faster than it processes them, or a micro-batch hangs: see SHOW STREAMS.",
        ),
        Alert(
            "HeadraceQuarantineGrows",
            "delta(headrace_stream_rows_quarantined[30m]) > 0",
            0,
            WARNING,
            f"Rows of stream {stream} go to quarantine",
            "SHOW QUARANTINE lists them with the reason; REPLAY or drop them.",
        ),
        Alert(
            "HeadraceRowsExpire",
            "increase(headrace_stream_rows_expired_total[30m]) > 0",
            0,
            WARNING,
            f"Stream {stream} drops rows that are too late",
            "If results must have them, set IGNORE EXPIRED 0 or a longer WATERMARK.",
        ),
    )


def query_alerts(max_lag: int) -> Sequence[Alert]:
    """Return the alerts about continuous queries."""
    return (
        Alert(
            "HeadraceQueryStopped",
            'headrace_continuous_queries{state="STOPPED"} > 0',
            1,
            CRITICAL,
            "{{ $value }} continuous queries are STOPPED",
            "SHOW CQS says why, and what to do.",
        ),
        Alert(
            "HeadraceQueryLate",
            f"headrace_cq_lag_seconds > {max_lag}",
            5,
            WARNING,
            "Continuous query {{ $labels.cq }} is {{ $value | humanizeDuration }} late",
            "Its executions fail or take longer than EVERY: see SHOW CQ EXECUTIONS.",
        ),
    )


def pipe_alerts(max_lag: int) -> Sequence[Alert]:
    """Return the alerts about pipes."""
    pipe = "{{ $labels.pipe }}"
    return (
        Alert(
            "HeadracePipeStopped",
            "headrace_pipe_stopped > 0",
            1,
            CRITICAL,
            f"Pipe {pipe} is STOPPED by an error",
            "SHOW PIPES shows the error.",
        ),
        Alert(
            "HeadracePipeBehind",
            f"headrace_pipe_lag_seconds > {max_lag}",
            5,
            WARNING,
            f"Pipe {pipe} is {{{{ $value | humanizeDuration }}}} behind",
            "It is slower than its source, or its receiver does not answer.",
        ),
    )


def trigger_alerts() -> Sequence[Alert]:
    """Return the alerts about triggers."""
    return (
        Alert(
            "HeadraceTriggerFails",
            "increase(headrace_trigger_failures_total[15m]) > 0",
            0,
            WARNING,
            "Trigger {{ $labels.trigger }} fails",
            "SHOW TRIGGERS DETAILS shows the last error.",
        ),
    )


def alert_rules(max_lag: int) -> dict[str, Any]:
    """Return a file of rules for Prometheus."""
    return {"groups": [{"name": "headrace", "rules": [alert.rule() for alert in alerts(max_lag)]}]}
