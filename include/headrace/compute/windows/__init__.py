"""Evaluation of windows step by step: rows to segments, segments of one window merged, windows to results."""

from headrace.compute.windows.segments import finish, key_columns, merge, prepare, to_segments, window_columns

__all__ = ["finish", "key_columns", "merge", "prepare", "to_segments", "window_columns"]
