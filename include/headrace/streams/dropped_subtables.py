"""What a stream keeps of subtables that were dropped: their rows stay in its results, and an event has the times of these."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from headrace.catalog import Catalog

SUBTABLES_DROPPED: Final = "SUBTABLES_DROPPED"
MAX_NAMES: Final = 3
MAX_EVENTS: Final = 100_000
TICKS: Final = re.compile(r"rows from (-?\d+) to (-?\d+)")


def dropped_message(names: Sequence[str], ticks: tuple[int, int]) -> str:
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"{', '.join(names[:MAX_NAMES])}{more} dropped: results keep their rows from {ticks[0]} to {ticks[1]}"


def dropped_ranges(catalog: Catalog, job_id: str) -> list[tuple[int, int]]:
    """Return the first and last instants, in ticks, of rows that were dropped with their subtables."""
    events = catalog.events.all("job", job_id, MAX_EVENTS)
    matches = (TICKS.search(event.message) for event in events if event.kind == SUBTABLES_DROPPED)
    return [(int(match[1]), int(match[2])) for match in matches if match is not None]
