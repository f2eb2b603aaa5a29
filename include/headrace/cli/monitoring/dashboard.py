"""The dashboard, in Grafana's JSON model."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any, Final

SOURCE: Final = {"type": "prometheus", "uid": "${source}"}
WIDTH, HEIGHT, STAT_HEIGHT = 12, 8, 4
SCHEMA_VERSION: Final = 39
STREAMS: Final = '{snode=~"$snode", database=~"$database"}'
SNODES: Final = '{snode=~"$snode"}'
STREAM: Final = "{{database}}.{{stream}}"


@dataclass(frozen=True)
class Panel:
    """A panel with a curve, or with `is_stat` a number, for each series of its queries; each query has a legend."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    is_stat: bool = False
    text: str = ""


STATS: Final = (
    Panel(
        "Streams",
        ((f"sum by (state) (headrace_streams{SNODES})", "{{state}}"),),
        is_stat=True,
        text="Number of streams by status",
    ),
    Panel("Continuous queries", ((f"sum by (state) (headrace_continuous_queries{SNODES})", "{{state}}"),), is_stat=True),
    Panel("Pipes", ((f"sum by (state) (headrace_pipes{SNODES})", "{{state}}"),), is_stat=True),
    Panel("Largest lag", ((f"max(headrace_stream_lag_seconds{STREAMS})", ""),), "s", is_stat=True),
    Panel("Quarantine", ((f"sum(headrace_stream_rows_quarantined{STREAMS})", "rows"),), is_stat=True),
    Panel("Catalog away", ((f"max(headrace_catalog_away_seconds{SNODES})", ""),), "s", is_stat=True),
)
CURVES: Final = (
    Panel("Lag of streams", ((f"headrace_stream_lag_seconds{STREAMS}", STREAM),), "s"),
    Panel("Rows waiting", ((f"headrace_stream_rows_pending{STREAMS}", STREAM),)),
    Panel("Rows read", ((f"rate(headrace_stream_rows_in_total{STREAMS}[$__rate_interval])", STREAM),), "rowsps"),
    Panel("Rows written", ((f"rate(headrace_stream_rows_out_total{STREAMS}[$__rate_interval])", STREAM),), "rowsps"),
    Panel(
        "Rows left out",
        (
            (f"rate(headrace_stream_rows_expired_total{STREAMS}[$__rate_interval])", f"{STREAM} too late"),
            (f"rate(headrace_stream_rows_filtered_total{STREAMS}[$__rate_interval])", f"{STREAM} excluded by WHERE"),
            (f"rate(headrace_stream_rows_discarded_total{STREAMS}[$__rate_interval])", f"{STREAM} older than KEEP"),
        ),
        "rowsps",
    ),
    Panel("Rows in quarantine", ((f"headrace_stream_rows_quarantined{STREAMS}", STREAM),)),
    Panel(
        "Duration of rounds",
        (
            (f"histogram_quantile(0.5, sum by (le) (rate(headrace_batch_seconds_bucket{SNODES}[$__rate_interval])))", "half"),
            (f"histogram_quantile(0.99, sum by (le) (rate(headrace_batch_seconds_bucket{SNODES}[$__rate_interval])))", "99 %"),
        ),
        "s",
        text="Polling rounds that had rows to process",
    ),
    Panel("Current micro-batches", ((f"headrace_stream_batch_age_seconds{STREAMS}", STREAM),), "s"),
    Panel("Lag of continuous queries", (("headrace_cq_lag_seconds", "{{cq}}"),), "s"),
    Panel(
        "Executions of continuous queries",
        (
            ("rate(headrace_cq_executions_done_total[$__rate_interval])", "{{cq}} done"),
            ("rate(headrace_cq_executions_failed_total[$__rate_interval])", "{{cq}} failed"),
        ),
        "ops",
    ),
    Panel("Lag of pipes", ((f"headrace_pipe_lag_seconds{SNODES}", "{{pipe}}"),), "s"),
    Panel(
        "Pipes",
        (
            (f"rate(headrace_pipe_rows_out_total{SNODES}[$__rate_interval])", "{{pipe}} rows"),
            (f"rate(headrace_pipe_failures_total{SNODES}[$__rate_interval])", "{{pipe}} failures"),
        ),
        "ops",
    ),
    Panel("Memory of drivers", ((f"headrace_memory_bytes{SNODES}", "{{snode}}"),), "bytes"),
    Panel("Age of the last poll", ((f"headrace_loop_age_seconds{SNODES}", "{{snode}}"),), "s"),
)


def dashboard() -> dict[str, Any]:
    """Return the dashboard, to import into Grafana, which asks for the Prometheus to read."""
    ids = count(1)
    width = 2 * WIDTH // len(STATS)
    stats = [place(panel, next(ids), width * index, 0, width, STAT_HEIGHT) for index, panel in enumerate(STATS)]
    curves = [
        place(panel, next(ids), WIDTH * (index % 2), STAT_HEIGHT + HEIGHT * (index // 2), WIDTH, HEIGHT)
        for index, panel in enumerate(CURVES)
    ]
    return {
        "title": "Headrace",
        "uid": "headrace",
        "tags": ["headrace"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [source_variable(), *(label_variable(name) for name in ("snode", "database"))]},
        "panels": [*stats, *curves],
    }


def place(panel: Panel, id: int, x: int, y: int, width: int, height: int) -> dict[str, Any]:
    """Return a panel at a place of the grid, which is 24 wide."""
    targets = [
        {"refId": chr(ord("A") + index), "datasource": SOURCE, "expr": expression, "legendFormat": legend or "__auto"}
        for index, (expression, legend) in enumerate(panel.queries)
    ]
    return {
        "id": id,
        "type": "stat" if panel.is_stat else "timeseries",
        "title": panel.title,
        "description": panel.text,
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": width, "h": height},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {}
        if panel.is_stat
        else {"tooltip": {"mode": "multi"}, "legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": targets,
    }


def source_variable() -> dict[str, Any]:
    return {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def label_variable(label: str) -> dict[str, Any]:
    """Return a variable with the values of a label of streams, all of which are chosen at first."""
    return {
        "name": label,
        "label": label.capitalize(),
        "type": "query",
        "datasource": SOURCE,
        "query": f"label_values(headrace_{'streams' if label == 'snode' else 'stream_lag_seconds'}, {label})",
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }
