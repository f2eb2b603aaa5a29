"""The demonstration's input: real readings that come with the package `bokeh_sampledata`.

52,281 readings of a continuous glucose monitor (every 5 minutes over half a year, with gaps) and 19,226 sea-surface temperatures of
a buoy (half-hourly over 13 months). The last days are held back, to be written live.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pandas as pd

LIVE_DAYS: Final = 3


@dataclass(frozen=True, slots=True)
class Source:
    """One instrument's readings by time; its supertable, subtable and tag."""

    table: str
    subtable: str
    create: str
    tags: str
    readings: pd.DataFrame

    @property
    def split(self) -> pd.Timestamp:
        """Readings from here on are live."""
        newest: pd.Timestamp = self.readings["ts"].max()
        return newest.floor("D") - pd.Timedelta(days=LIVE_DAYS - 1)

    @property
    def past(self) -> pd.DataFrame:
        return self.readings[self.readings["ts"] < self.split]

    @property
    def live(self) -> pd.DataFrame:
        return self.readings[self.readings["ts"] >= self.split]

    def write_past(self, folder: Path) -> Path:
        """The past as a CSV file."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.table}.csv"
        self.past.to_csv(path, index=False, date_format="%Y-%m-%dT%H:%M:%S.000Z")
        return path


def glucose() -> Source:
    """The monitor's clock is taken as UTC. Where it was set back a reading has the time of an earlier one, and replaces it."""
    from bokeh_sampledata.glucose import data

    frame = data.reset_index().rename(columns={"datetime": "ts"})
    frame["ts"] = frame["ts"].dt.tz_localize("UTC")
    frame["isig"] = pd.to_numeric(frame["isig"], errors="coerce")
    return Source(
        "glucose",
        "monitor",
        "CREATE STABLE demo.glucose (ts TIMESTAMP, isig DOUBLE, glucose INT) TAGS (wearer VARCHAR(20))",
        "'one'",
        frame.drop_duplicates("ts", keep="last").sort_values("ts"),
    )


def sea() -> Source:
    from bokeh_sampledata.sea_surface_temperature import sea_surface_temperature as data

    frame = data.reset_index().rename(columns={"time": "ts"})
    frame["ts"] = pd.to_datetime(frame["ts"], utc=True)
    return Source(
        "sea",
        "buoy",
        "CREATE STABLE demo.sea (ts TIMESTAMP, temperature DOUBLE) TAGS (place VARCHAR(20))",
        "'gulf of maine'",
        frame.drop_duplicates("ts", keep="last").sort_values("ts"),
    )
