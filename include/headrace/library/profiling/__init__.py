"""Data profiling: figures, distributions, correlations, samples and segments of a series.

Functions that give a single figure put it at time 0.
"""

from __future__ import annotations

from typing import Final

from headrace.library.profiling.correlation import (
    Autocorrelation,
    LjungBox,
    PartialAutocorrelation,
    Period,
)
from headrace.library.profiling.distribution import Distinct, Histogram, Skew, Spread
from headrace.library.profiling.integral import Integral, IntegralAverage
from headrace.library.profiling.quantiles import Median, MedianDeviation, Percentile, Quantile
from headrace.library.profiling.resampling import Resample
from headrace.library.profiling.sampling import Sample
from headrace.library.profiling.scaling import MinMax, MovingAverage, ZScore
from headrace.library.profiling.segments import Segment
from headrace.library.profiling.spline import Spline

FUNCTIONS: Final = {
    "UDAFIntegral": Integral,
    "UDAFIntegralAvg": IntegralAverage,
    "UDAFMad": MedianDeviation,
    "UDAFMedian": Median,
    "UDAFPercentile": Percentile,
    "UDAFPeriod": Period,
    "UDAFQuantile": Quantile,
    "UDAFSkew": Skew,
    "UDAFSpread": Spread,
    "UDTFACF": Autocorrelation,
    "UDTFDistinct": Distinct,
    "UDTFHistogram": Histogram,
    "UDTFMinMax": MinMax,
    "UDTFMvAvg": MovingAverage,
    "UDTFPACF": PartialAutocorrelation,
    "UDTFQLB": LjungBox,
    "UDTFResample": Resample,
    "UDTFSample": Sample,
    "UDTFSegment": Segment,
    "UDTFSpline": Spline,
    "UDTFZScore": ZScore,
}
"""The functions by the class names of IoTDB's library."""
