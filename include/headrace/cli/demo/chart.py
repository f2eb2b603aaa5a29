"""Charts in the terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final

HEIGHT: Final = 14
CONTROL: Final = re.compile(r"\x1b\[[0-9;]*m")


def line_chart(title: str, times: Sequence[datetime], values: Sequence[float], *, width: int) -> str:
    """Values over time as text without colours."""
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plotsize(min(width, 110), HEIGHT)
    plotext.date_form("Y-m-d")
    plotext.title(title)
    plotext.plot([time.strftime("%Y-%m-%d") for time in times], list(values), marker="braille")
    return CONTROL.sub("", str(plotext.build()))
