"""Queries recomputed by an engine of their own (DuckDB), in SQL of their own, from what the language says of each clause.

Nothing here knows how Headrace computes: `headrace.compute` and what is above it are not imported.
"""

from headrace.verify.frames import Lookup, StoredTable
from headrace.verify.result import Difference, MaintainedTable, Sample, VerificationResult, recomputed, verify

__all__ = ["Difference", "Lookup", "MaintainedTable", "Sample", "StoredTable", "VerificationResult", "recomputed", "verify"]
