"""Generators of DAGs: `snode` and `stream` each make one DAG from plain values."""

from headrace_generators.definitions import generate

__all__ = ["generate"]
