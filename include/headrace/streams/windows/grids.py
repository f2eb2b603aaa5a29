"""The windows of an INTERVAL as a sequence."""

from __future__ import annotations

from headrace.compute import Plan
from headrace.compute.window_plans import IntervalWindow
from headrace.errors import InternalError
from headrace.model.calendar_windows import CalendarGrid
from headrace.model.windows import WindowGrid


def window_grid(plan: Plan) -> WindowGrid | CalendarGrid:
    """Return the windows of a query with INTERVAL, or the points of one with EVERY."""
    if plan.interp is not None:
        return WindowGrid(plan.interp.every, 0, 0)
    if not isinstance(plan.window, IntervalWindow):
        raise InternalError("only windows of INTERVAL are a sequence")
    return plan.window.sequence(plan.precision)
