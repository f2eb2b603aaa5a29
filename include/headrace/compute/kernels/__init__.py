"""Segment kernels: rows become segments, and segments windows, by vectorized Arrow and NumPy instead of Spark SQL.

A kernel is compiled from a bound plan. Whatever it cannot compute exactly as Spark does raises `UnsupportedError`: when it is
compiled for a function or type, when it runs for a value that Spark refuses, such as a sum out of range. Spark then does the work.
"""

from headrace.compute.kernels.outputs import OutputKernel, ProjectionKernel
from headrace.compute.kernels.segments import SegmentKernel
from headrace.compute.nodes import UnsupportedError

__all__ = ["OutputKernel", "ProjectionKernel", "SegmentKernel", "UnsupportedError"]
