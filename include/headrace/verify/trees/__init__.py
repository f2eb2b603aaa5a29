"""Recompute queries over trees of devices with DuckDB, from the definition of each clause in IoTDB's documentation."""

from headrace.verify.trees.result import recompute_tree, verify_tree
from headrace.verify.trees.source import TreeRows, TreeSource
from headrace.verify.trees.spans import within

__all__ = ["TreeRows", "TreeSource", "recompute_tree", "verify_tree", "within"]
