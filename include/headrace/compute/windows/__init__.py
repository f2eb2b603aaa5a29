"""Evaluation of windows step by step: rows to segments, segments of one window merged, windows to results."""

from headrace.compute.windows.segments import ATTRIBUTES, finish, key_columns, merge, prepare, to_segments

__all__ = ["ATTRIBUTES", "finish", "key_columns", "merge", "prepare", "to_segments"]
