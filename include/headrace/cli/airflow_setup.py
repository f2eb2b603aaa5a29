"""`headrace airflow`: prepare an Airflow of the user."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.console import err, out
from headrace.cli.options import Home, format_example

app = typer.Typer(name="airflow", help="Prepare an Airflow that you have.", no_args_is_help=True)


@app.command(epilog=format_example("headrace airflow setup --dry-run"))
def setup(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be changed, and change nothing.")] = False,
    home: Home = None,
) -> None:
    """Create or update the connection and the pools that Headrace's DAGs need in the Airflow of the settings, and unpause the DAGs.

    Has no effect on what is as it should be.
    """
    from headrace.errors import ConfigurationError
    from headrace.runtime.airflow import PATIENT_TIMEOUT, AirflowClient
    from headrace.runtime.airflow_setup import SHARED_POOL, check_version, needed_changes, used_pools
    from headrace.settings import load

    settings = load(home=home)
    client = AirflowClient.find(settings, PATIENT_TIMEOUT) if settings.airflow_url else None
    if client is None:
        hint = "set it with a login, HEADRACE_AIRFLOW_USER and HEADRACE_AIRFLOW_PASSWORD; `headrace up` prepares its own Airflow"
        raise ConfigurationError("HEADRACE_AIRFLOW_URL does not name an Airflow", hint=hint)
    changed = False
    with client:
        version = check_version(client)
        for change in needed_changes(settings, client):
            text = f"would {change.description}" if dry_run else change.description
            out.print(text, highlight=False, markup=False, soft_wrap=True)
            if not dry_run:
                change.apply()
            changed = True
    if SHARED_POOL in {pool.name for pool in used_pools(settings)}:
        note = f"{SHARED_POOL} is Airflow's own: name pools by HEADRACE_BACKFILL_POOL and HEADRACE_CQ_POOL to limit drivers"
        err.print(note, style="yellow", highlight=False, soft_wrap=True)
    if not changed:
        out.print(f"Airflow {version} at {settings.airflow_url} needs no change", highlight=False, soft_wrap=True)
