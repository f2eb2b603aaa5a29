"""Spark's functions, imported when the first is used: statements that need no Spark should not wait for its import."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import functions as F
else:
    import importlib

    class Functions:
        """Stands for the module until something of it is asked for."""

        def __getattr__(self, name: str) -> object:
            return getattr(importlib.import_module("pyspark.sql.functions"), name)

    F = Functions()

__all__ = ["F"]
