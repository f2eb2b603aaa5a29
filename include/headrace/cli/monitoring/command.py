"""Writes the files of the monitoring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final

import typer
import yaml

from headrace.cli.console import out
from headrace.cli.monitoring.alerts import alert_rules
from headrace.cli.monitoring.dashboard import dashboard

ALERTS_FILE: Final = "headrace-alerts.yml"
DASHBOARD_FILE: Final = "headrace-dashboard.json"


def monitoring(
    write: Annotated[Path, typer.Option("--write", file_okay=False, help="Folder to write the files to.")],
    max_lag: Annotated[int, typer.Option("--max-lag", min=1, help="Seconds of lag above which there is an alert.")] = 300,
) -> None:
    """Write rules of alerts for Prometheus, and a dashboard to import into Grafana."""
    write.mkdir(parents=True, exist_ok=True)
    (write / ALERTS_FILE).write_text(yaml.safe_dump(alert_rules(max_lag), sort_keys=False, width=120, allow_unicode=True))
    (write / DASHBOARD_FILE).write_text(json.dumps(dashboard(), indent=2) + "\n")
    out.print(f"wrote {write / ALERTS_FILE}\nwrote {write / DASHBOARD_FILE}", highlight=False, soft_wrap=True)
