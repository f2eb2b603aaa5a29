"""The functions of the library by their names in queries, and how those that return one value are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Signature:
    """How a function is called.

    Attributes:
        class_name: The class in IoTDB's library, with its package below `org.apache.iotdb.library`.
        inputs: The number of inputs of a function that returns one value for all rows; None if it returns a series.
        attributes: The attributes of such a function, in the order of positional arguments. A window is not among them: it is that
            of the query.
        is_aggregate: Whether the class is a `UDAF`. (In IoTDB, classes with this prefix in their names are UDTFs, too.)
    """

    class_name: str
    inputs: int | None = None
    attributes: tuple[str, ...] = ()
    is_aggregate: bool = False


SIGNATURES: Final = {
    "acf": Signature("dprofile.UDTFACF"),
    "ar": Signature("dlearn.UDTFAR"),
    "cluster": Signature("dlearn.UDTFCluster"),
    "completeness": Signature("dquality.UDTFCompleteness", 1, ("downtime",)),
    "consecutivesequences": Signature("series.UDTFConsecutiveSequences"),
    "consecutivewindows": Signature("series.UDTFConsecutiveWindows"),
    "consistency": Signature("dquality.UDTFConsistency", 1),
    "conv": Signature("frequency.UDTFConv"),
    "cov": Signature("dmatch.UDAFCov", 2),
    "deconv": Signature("frequency.UDTFDeconv"),
    "distinct": Signature("dprofile.UDTFDistinct"),
    "dtw": Signature("dmatch.UDAFDtw", 2),
    "dtw_match": Signature("match.UDAFDTWMatch", 1, ("pattern", "threshold"), is_aggregate=True),
    "dwt": Signature("frequency.UDTFDWT"),
    "envelope": Signature("frequency.UDFEnvelopeAnalysis"),
    "fft": Signature("frequency.UDTFFFT"),
    "highpass": Signature("frequency.UDTFHighPass"),
    "histogram": Signature("dprofile.UDTFHistogram"),
    "idwt": Signature("frequency.UDTFIDWT"),
    "ifft": Signature("frequency.UDTFIFFT"),
    "integral": Signature("dprofile.UDAFIntegral", 1, ("unit",)),
    "integralavg": Signature("dprofile.UDAFIntegralAvg", 1),
    "iqr": Signature("anomaly.UDTFIQR"),
    "ksigma": Signature("anomaly.UDTFKSigma"),
    "lof": Signature("anomaly.UDTFLOF"),
    "lowpass": Signature("frequency.UDTFLowPass"),
    "mad": Signature("dprofile.UDAFMad", 1, ("error",)),
    "median": Signature("dprofile.UDAFMedian", 1, ("error",)),
    "minmax": Signature("dprofile.UDTFMinMax"),
    "missdetect": Signature("anomaly.UDTFMissDetect"),
    "mvavg": Signature("dprofile.UDTFMvAvg"),
    "outlier": Signature("anomaly.UDTFOutlier"),
    "pacf": Signature("dprofile.UDTFPACF"),
    "pattern_match": Signature("match.UDAFPatternMatch", 1, ("timePattern", "valuePattern", "threshold"), is_aggregate=True),
    "pearson": Signature("dmatch.UDAFPearson", 2),
    "percentile": Signature("dprofile.UDAFPercentile", 1, ("rank", "error")),
    "period": Signature("dprofile.UDAFPeriod", 1),
    "ptnsym": Signature("dmatch.UDTFPtnSym"),
    "qlb": Signature("dprofile.UDTFQLB"),
    "quantile": Signature("dprofile.UDAFQuantile", 1, ("rank", "K")),
    "range": Signature("anomaly.UDTFRange"),
    "re_sample": Signature("dprofile.UDTFResample"),
    "sample": Signature("dprofile.UDTFSample"),
    "segment": Signature("dprofile.UDTFSegment"),
    "skew": Signature("dprofile.UDAFSkew", 1),
    "spline": Signature("dprofile.UDTFSpline"),
    "spread": Signature("dprofile.UDAFSpread", 1),
    "timeliness": Signature("dquality.UDTFTimeliness", 1),
    "timestamprepair": Signature("drepair.UDTFTimestampRepair"),
    "twosidedfilter": Signature("anomaly.UDTFTwoSidedFilter"),
    "validity": Signature("dquality.UDTFValidity", 1),
    "valuefill": Signature("drepair.UDTFValueFill"),
    "valuerepair": Signature("drepair.UDTFValueRepair"),
    "xcorr": Signature("dmatch.UDTFXCorr"),
    "zscore": Signature("dprofile.UDTFZScore"),
}
"""The functions by name."""
