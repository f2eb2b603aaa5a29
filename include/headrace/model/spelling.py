"""Hints for names that do not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, names: Iterable[str], otherwise: str = "") -> str:
    """Return a hint with the most similar name, or `otherwise` if none is similar."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"did you mean {close[0]}?" if close else otherwise
