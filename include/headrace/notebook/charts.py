"""Charts of rows in notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pandas as pd
from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_numeric_dtype

from headrace.errors import InterfaceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

MAX_LINES: Final = 30
"""Lines of a chart; more cannot be distinguished."""


def plot_rows(rows: pd.DataFrame) -> Axes:
    """Draw each column of numbers over the first one of instants, a line for each combination of texts; return the axes.

    Raises:
        InterfaceError: There are no instants or numbers, there would be too many lines, or matplotlib is not installed.
    """
    instants = [name for name in rows if is_datetime64_any_dtype(rows[name])]
    numbers = [name for name in rows if is_numeric_dtype(rows[name]) and not is_bool_dtype(rows[name])]
    if not instants or not numbers:
        missing = "numbers" if instants else "instants"
        raise InterfaceError(f"the rows have no column of {missing}", hint="select a timestamp and at least one number")
    time = instants[0]
    lines = lines_of(rows, time, numbers, [name for name in rows if name not in {*instants, *numbers}])
    if lines.shape[1] > MAX_LINES:
        raise InterfaceError(
            f"a chart of {lines.shape[1]} lines cannot be read", hint=f"select at most {MAX_LINES} series, or aggregate them"
        )
    ylabel = str(numbers[0]) if len(numbers) == 1 else ""
    axes = new_axes()
    # One after the other: lines of different instants would be all gaps.
    for name in lines:
        lines[name].dropna().plot(ax=axes, label=str(name), legend=lines.shape[1] > 1, xlabel=str(time), ylabel=ylabel)
    return axes


def new_axes() -> Axes:
    """Return axes in a figure of their own."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise InterfaceError("matplotlib is not installed", hint="pip install headrace[notebook]") from None
    return pyplot.subplots()[1]


def lines_of(rows: pd.DataFrame, time: Any, numbers: Sequence[Any], texts: Sequence[Any]) -> pd.DataFrame:
    """Return a column for each line, by time."""
    if not texts:
        return rows.set_index(time)[list(numbers)].sort_index()
    lines = rows.pivot_table(index=time, columns=list(texts), values=list(numbers), aggfunc="last", dropna=False)
    lines = lines.dropna(axis="columns", how="all")
    kept = lines.columns.droplevel(0) if len(numbers) == 1 else lines.columns
    return lines.set_axis([", ".join(map(str, name if isinstance(name, tuple) else (name,))) for name in kept], axis="columns")
