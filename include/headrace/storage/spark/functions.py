"""Spark's functions, imported on first use, so that statements that need no Spark do not wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import functions as F
else:
    import importlib

    class Functions:
        """A lazy stand-in for the module."""

        def __getattr__(self, name: str) -> object:
            return getattr(importlib.import_module("pyspark.sql.functions"), name)

    F = Functions()

__all__ = ["F"]
