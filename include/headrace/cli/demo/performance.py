"""Around the story: the system comes up before it, and stays up or goes down after it."""

from __future__ import annotations

import shutil
from pathlib import Path

from headrace.cli.console import err, out
from headrace.cli.demo.story import Story, elapsed, heading, say
from headrace.cli.system import down, up
from headrace.runtime.airflow import AirflowClient
from headrace.service.connection import connect
from headrace.settings import Settings, load

NEXT = """
  headrace sql "SHOW STREAMS"
  headrace sql -d demo "SELECT * FROM sea_daily ORDER BY 1 DESC LIMIT 5"
  headrace explain -d demo "CREATE STREAM mine INTO mine_out AS SELECT _wstart, max(glucose) FROM glucose INTERVAL(1d)"
  headrace down"""


def perform(home: Path | None, *, end: bool) -> bool:
    """Tell the story; whether every comparison was equal. With `end` the system is stopped, whatever happens."""
    settings = load() if home is None else load(home=home)
    mine = not settings.home_path.exists()
    try:
        heading("Airflow and the snode")
        up(settings.home_path)
        with connect(settings=settings) as connection:
            equal = Story(connection).tell()
        farewell(settings, equal, elapsed(), stays=not end)
        return equal
    finally:
        if end:
            finish(settings, whole=mine)


def farewell(settings: Settings, equal: bool, seconds: float, *, stays: bool) -> None:
    """What came of it, and where to go from here."""
    said = "[green]Every stream's table equals the batch query.[/]" if equal else "[red]A stream's table differs, see above.[/]"
    say(f"\n{said} ({seconds:.0f} s)")
    client = AirflowClient.find(settings)
    if stays and client is not None:
        with client:
            say(f"\nThe system is up: {client.login.url} (login {client.login.user}, password {client.login.password})")
            out.print(f"Try next:{NEXT}", highlight=False, markup=False, soft_wrap=True)


def finish(settings: Settings, *, whole: bool) -> None:
    """Stop the system, and remove the home where the demonstration made it."""
    down(settings.home_path)
    if whole:
        shutil.rmtree(settings.home_path, ignore_errors=True)
        err.print(f"removed {settings.home_path}", style="dim", highlight=False)
