"""Charts in the terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final

HEIGHT: Final = 14
MAX_WIDTH: Final = 110
CONTROL: Final = re.compile(r"\x1b\[[0-9;]*m")


def line_chart(title: str, times: Sequence[datetime], values: Sequence[float], *, width: int) -> str:
    """Return a chart of values over time as text without colors.

    Args:
        title: Line above the chart.
        times: Instants of the values, ascending.
        values: One value per instant.
        width: Columns to use at most.
    """
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plotsize(min(width, MAX_WIDTH), HEIGHT)
    plotext.date_form("Y-m-d")
    plotext.title(title)
    plotext.plot([time.strftime("%Y-%m-%d") for time in times], list(values), marker="braille")
    return CONTROL.sub("", str(plotext.build()))
