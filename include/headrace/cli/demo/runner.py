"""Runs the demonstration: starts the system before its steps, and stops it afterwards if asked to."""

from __future__ import annotations

import shutil
from pathlib import Path

from headrace.cli.console import err, out
from headrace.cli.demo.steps import Demonstration, elapsed_seconds, print_heading, print_line
from headrace.cli.system import down, up
from headrace.runtime.airflow import AirflowClient
from headrace.service.connecting import connect
from headrace.settings import Settings, load

NEXT_STEPS = """
  headrace sql "SHOW STREAMS"
  headrace sql -d demo "SELECT * FROM sea_daily ORDER BY 1 DESC LIMIT 5"
  headrace explain -d demo "CREATE STREAM mine INTO mine_out AS SELECT _wstart, max(glucose) FROM glucose INTERVAL(1d)"
  headrace down"""


def run_demo(home: Path | None, *, end: bool) -> bool:
    """Run the demonstration; return True if every stream's table equals its batch query.

    `home` is that of the system; None for the configured one. With `end`, stop the system afterwards, even after an error.
    """
    settings = load(home=home)
    creates_home = not settings.home_path.exists()
    try:
        print_heading("Start Airflow and the snode")
        up(settings.home_path)
        with connect(settings=settings, dialect="tdengine") as connection:
            equal = Demonstration(connection).run()
        print_summary(settings, equal, elapsed_seconds(), is_left_running=not end)
        return equal
    finally:
        if end:
            stop_system(settings, remove_home=creates_home)


def print_summary(settings: Settings, equal: bool, seconds: float, *, is_left_running: bool) -> None:
    outcome = "[green]Every stream's table equals the batch query.[/]" if equal else "[red]A stream's table differs, see above.[/]"
    print_line(f"\n{outcome} ({seconds:.0f} s)")
    client = AirflowClient.find(settings)
    if is_left_running and client is not None:
        with client:
            print_line(f"\nThe system is up: {client.login.url} (login {client.login.user}, password {client.login.password})")
            out.print(f"Try next:{NEXT_STEPS}", highlight=False, markup=False, soft_wrap=True)


def stop_system(settings: Settings, *, remove_home: bool) -> None:
    down(settings.home_path)
    if remove_home:
        shutil.rmtree(settings.home_path, ignore_errors=True)
        err.print(f"removed {settings.home_path}", style="dim", highlight=False)
