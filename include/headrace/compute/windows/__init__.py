"""Windows piece by piece: rows become segments, segments of one window become one, windows become results."""

from headrace.compute.windows.segments import ATTRIBUTES, finish, key_columns, merge, prepare, segments

__all__ = ["ATTRIBUTES", "finish", "key_columns", "merge", "prepare", "segments"]
