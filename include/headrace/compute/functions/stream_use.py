"""Which streams may call a function."""

from __future__ import annotations

from enum import Enum


class StreamUse(Enum):
    """Where a stream's query may call a function.

    ANY: in every stream. FORCED_CLOSE: only if the clock closes its windows. NONE: only in queries.
    """

    ANY = "any"
    FORCED_CLOSE = "forced close"
    NONE = "none"
