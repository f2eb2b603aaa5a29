"""What jobs need, as their kinds declare it of definitions."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from headrace.jobs.registry import kind_of
from headrace.model.jobs import JobDefinition
from headrace.model.needs import Needs

if TYPE_CHECKING:
    from headrace.catalog import Catalog

MAX_REMEMBERED: Final = 10_000
"""Jobs whose needs are remembered: drivers ask for those of all their jobs again and again."""
_remembered: Final[OrderedDict[str, tuple[JobDefinition, Needs]]] = OrderedDict()
_lock: Final = threading.Lock()


def needs_of(catalog: Catalog, job: JobDefinition) -> Needs:
    """Return what a job needs. Thread-safe.

    Raises:
        UnknownKindError: No package has registered its kind.
    """
    with _lock:
        cached = _remembered.get(job.id)
    if cached is not None and cached[0] == job:
        return cached[1]
    needs = kind_of(job).needs()(catalog, job)
    with _lock:
        _remembered[job.id] = (job, needs)
        if len(_remembered) > MAX_REMEMBERED:
            _remembered.popitem(last=False)
    return needs
