"""Keeping pandas out of short processes: Arrow imports it with the first array, which takes longer than a small execution."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

import pyarrow as pa

PANDAS: Final = "pandas"


class PandasHider(MetaPathFinder):
    """Makes an import of pandas fail."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:  # noqa: ARG002
        """Raise `ModuleNotFoundError` for pandas."""
        if fullname == PANDAS:
            raise ModuleNotFoundError(f"{PANDAS} is not imported yet", name=PANDAS)
        return None


def defer_pandas() -> None:
    """Have Arrow import pandas when something asks for a data frame, instead of with the first array.

    Arrow looks for pandas once. Afterwards it takes a pandas series for an ordinary sequence, so call this only in a process that
    runs no code of users, and before it starts threads.
    """
    if PANDAS in sys.modules:
        return
    hider = PandasHider()
    sys.meta_path.insert(0, hider)
    try:
        pa.scalar(None)
    finally:
        sys.meta_path.remove(hider)
