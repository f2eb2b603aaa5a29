"""The columnar engine: plans over Arrow tables by vectorized Arrow and NumPy instead of Spark SQL, in a driver or in Spark's tasks.

Rows become segments, and segments windows (`SegmentKernel`). What cannot be computed exactly as Spark does raises
`UnsupportedError`: a function or type before any row is read, or a value that Spark refuses, such as a sum out of range. Spark then
does the work.
"""

from headrace.compute.columnar.columns import OutputKernel, ProjectionKernel
from headrace.compute.columnar.segments import SegmentKernel
from headrace.compute.nodes import UnsupportedError

__all__ = ["OutputKernel", "ProjectionKernel", "SegmentKernel", "UnsupportedError"]
