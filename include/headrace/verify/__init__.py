"""Queries recomputed by an engine of their own (DuckDB), in SQL of their own, from what the language says of each clause.

Nothing here knows how Headrace computes: `headrace.compute` and what is above it are not imported.
"""

from headrace.verify.frames import Lookup, Stored
from headrace.verify.verdict import Difference, Maintained, Sample, Verdict, recomputed, verify

__all__ = ["Difference", "Lookup", "Maintained", "Sample", "Stored", "Verdict", "recomputed", "verify"]
