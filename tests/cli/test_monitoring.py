"""Alerts and dashboard are valid, fire when they should, and use metrics that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.cli.monitoring.alerts import alert_rules
from headrace.cli.monitoring.dashboard import dashboard
from headrace.runtime.metrics import Histogram, SnodeMetrics, render_metrics

NAME = re.compile(r"\bheadrace_\w+")
PARTS = re.compile(r"_(?:bucket|sum|count)$")
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")


def expressions(model: dict[str, Any]) -> list[str]:
    """Return the queries of a dashboard as Prometheus gets them."""
    queries = [target["expr"] for panel in model["panels"] for target in panel["targets"]]
    return [query.replace("$__rate_interval", "5m").replace("$snode", ".*").replace("$database", ".*") for query in queries]


def promtool(*arguments: str | Path) -> str:
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_alerts_and_panels_use_metrics_that_exist() -> None:
    page = render_metrics(SnodeMetrics("default", 1, [], Histogram(), 0, 0.0, 0))
    existing = set(re.findall(r"^# TYPE (\w+)", page, re.MULTILINE))
    rules = [rule["expr"] for group in alert_rules(60)["groups"] for rule in group["rules"]]
    used = {name for text in (*rules, *expressions(dashboard())) for name in NAME.findall(text)}
    assert {PARTS.sub("", name) for name in used} - existing == set()
    assert len(used) > 20


@needs_promtool
def test_prometheus_accepts_the_rules_and_the_queries(tmp_path: Path) -> None:
    written = CliRunner().invoke(app, ["monitoring", "--write", str(tmp_path), "--max-lag", "60"])
    assert written.exit_code == 0, written.output
    assert "SUCCESS: 12 rules found" in promtool("check", "rules", tmp_path / "headrace-alerts.yml")
    queries = expressions(json.loads((tmp_path / "headrace-dashboard.json").read_text()))
    records = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries)]
    (tmp_path / "queries.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": records}]}))
    assert f"SUCCESS: {len(queries)} rules found" in promtool("check", "rules", tmp_path / "queries.yml")


def firing(name: str, at: str, series: dict[str, str], labels: dict[str, str], severity: str, summary: str) -> dict[str, Any]:
    """Return a test of promtool: which alert fires, given a value for each minute."""
    rule = next(rule for group in alert_rules(60)["groups"] for rule in group["rules"] if rule["alert"] == name)
    annotations = {"summary": summary, "description": rule["annotations"]["description"]}
    alert = {"exp_labels": {"severity": severity, **labels}, "exp_annotations": annotations}
    return {
        "interval": "1m",
        "input_series": [{"series": text, "values": values} for text, values in series.items()],
        "alert_rule_test": [{"eval_time": at, "alertname": name, "exp_alerts": [alert]}, {"eval_time": "0m", "alertname": name}],
    }


@needs_promtool
def test_alerts_fire(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(alert_rules(60)))
    stream = {"snode": "s", "database": "power", "stream": "a"}
    labels = ", ".join(f'{name}="{value}"' for name, value in stream.items())
    tests = [
        firing(
            "HeadraceStreamStopped",
            "5m",
            {'headrace_streams{snode="s", state="STOPPED"}': "0 0 0 2x9"},
            {"snode": "s", "state": "STOPPED"},
            "critical",
            "2 streams of snode s are STOPPED",
        ),
        firing(
            "HeadraceStreamBehind",
            "9m",
            {f"headrace_stream_lag_seconds{{{labels}}}": "0 90x20"},
            stream,
            "warning",
            "Stream power.a is 1m 30s behind",
        ),
        firing(
            "HeadraceQuarantineGrows",
            "5m",
            {f"headrace_stream_rows_quarantined{{{labels}}}": "0 0 0 1 1 1"},
            stream,
            "warning",
            "Rows of stream power.a go to quarantine",
        ),
    ]
    content = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(content))
    assert "SUCCESS" in promtool("test", "rules", tmp_path / "tests.yml")
