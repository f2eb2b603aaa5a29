"""Recompute queries independently with DuckDB, in SQL written from the language's definition of each clause.

Shares nothing with how Headrace computes: imports neither `headrace.compute` nor anything above it.
"""

from headrace.verify.result import Difference, Sample, VerificationResult
from headrace.verify.tdengine import DroppedRows, Lookup, MaintainedTable, StoredTable, recompute, verify

__all__ = [
    "Difference",
    "DroppedRows",
    "Lookup",
    "MaintainedTable",
    "Sample",
    "StoredTable",
    "VerificationResult",
    "recompute",
    "verify",
]
