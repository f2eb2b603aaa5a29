"""Delta tables: create, write by append or merge, read, changes. Spark is imported only by what is given a session."""

from headrace.storage.commits import Commit, Expectation, Written
from headrace.storage.pruning import Bounds
from headrace.storage.tables import Tables

__all__ = ["Bounds", "Commit", "Expectation", "Tables", "Written"]
