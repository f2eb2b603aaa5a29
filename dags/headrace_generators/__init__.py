"""Generators of DAGs: `snode` and `stream` build a DAG from plain values, `definitions` reads these from the catalog."""

from headrace_generators.definitions import generate

__all__ = ["generate"]
