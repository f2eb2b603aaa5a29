"""Delta tables: create, write by append or merge, read, changes. Spark is imported only by functions that take a session."""

from headrace.storage.delta.changes import CommitSize
from headrace.storage.delta.commits import Commit, ExpectedTransaction, StaleReadError, WriteMetrics
from headrace.storage.delta.pruning import Bounds
from headrace.storage.tables import Tables

__all__ = ["Bounds", "Commit", "CommitSize", "ExpectedTransaction", "StaleReadError", "Tables", "WriteMetrics"]
