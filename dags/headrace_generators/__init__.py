"""Generators of DAGs: `definitions` reads plain values from the catalog, from which the other modules build a DAG each."""

from headrace_generators.definitions import generate

__all__ = ["generate"]
