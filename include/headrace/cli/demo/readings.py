"""The demonstration's input: real readings from the package `bokeh_sampledata`.

There are 52,281 readings of a continuous glucose monitor (every 5 minutes over half a year, with gaps) and 19,226 sea-surface
temperatures of a buoy (half-hourly over 13 months). The last `LIVE_DAYS` days are not loaded but written live.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pandas as pd

LIVE_DAYS: Final = 3


@dataclass(frozen=True, slots=True)
class DemoSource:
    """One instrument: its supertable, subtable and tags, and its readings sorted by time."""

    table: str
    subtable: str
    create_statement: str
    tags: str
    readings: pd.DataFrame

    @property
    def live_start(self) -> pd.Timestamp:
        """Time of the first reading that is written live, at midnight."""
        last: pd.Timestamp = self.readings["ts"].max()
        return last.floor("D") - pd.Timedelta(days=LIVE_DAYS - 1)

    @property
    def history(self) -> pd.DataFrame:
        """Readings that are loaded before the streams start."""
        return self.readings[self.readings["ts"] < self.live_start]

    @property
    def live(self) -> pd.DataFrame:
        """Readings that are written while the streams run."""
        return self.readings[self.readings["ts"] >= self.live_start]

    def write_history(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.table}.csv"
        self.history.to_csv(path, index=False, date_format="%Y-%m-%dT%H:%M:%S.000Z")
        return path


def load_glucose() -> DemoSource:
    """Load the monitor's readings, with its clock taken as UTC.

    If the clock was set back, readings repeat the times of earlier ones and replace them.
    """
    from bokeh_sampledata.glucose import data

    frame = data.reset_index().rename(columns={"datetime": "ts"})
    frame["ts"] = frame["ts"].dt.tz_localize("UTC")
    frame["isig"] = pd.to_numeric(frame["isig"], errors="coerce")
    return DemoSource(
        "glucose",
        "monitor",
        "CREATE STABLE demo.glucose (ts TIMESTAMP, isig DOUBLE, glucose INT) TAGS (wearer VARCHAR(20))",
        "'one'",
        frame.drop_duplicates("ts", keep="last").sort_values("ts"),
    )


def load_sea() -> DemoSource:
    from bokeh_sampledata.sea_surface_temperature import sea_surface_temperature as data

    frame = data.reset_index().rename(columns={"time": "ts"})
    frame["ts"] = pd.to_datetime(frame["ts"], utc=True)
    return DemoSource(
        "sea",
        "buoy",
        "CREATE STABLE demo.sea (ts TIMESTAMP, temperature DOUBLE) TAGS (place VARCHAR(20))",
        "'gulf of maine'",
        frame.drop_duplicates("ts", keep="last").sort_values("ts"),
    )
