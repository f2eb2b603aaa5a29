"""The functions that random calls register on both servers, with the attributes that they give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.iotdb_comparison.functions import Choices
from tests.iotdb_comparison.trees import START

LIBRARY: Final = "org.apache.iotdb.library."
EXAMPLES: Final = "org.apache.iotdb.db.query.udf.example."
"""The package of IoTDB's test functions, which `tests/conformance/conformance_plugins.py` has in Python."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A function by its class.

    Each of `variants` has attributes that fit together; `inputs` are the kinds of its series, where `same` repeats the first one,
    and `device` is a device of the tree of calls whose series suit the function.
    """

    class_name: str
    variants: Sequence[Choices] = ({},)
    inputs: Sequence[str] = ("number",)
    device: str = ""


def library(class_name: str, *variants: Choices, inputs: Sequence[str] = ("number",), device: str = "") -> Registered:
    """Return a function of IoTDB's library."""
    return Registered(f"{LIBRARY}{class_name}", variants or ({},), inputs, device)


def example(class_name: str, *variants: Choices, inputs: Sequence[str] = ("number",)) -> Registered:
    """Return one of IoTDB's test functions."""
    return Registered(f"{EXAMPLES}{class_name}", variants or ({},), inputs)


PAIR: Final = ("number", "number")
ANY_PAIR: Final = ("any", "any")
WINDOW: Final = {"?window": ("15", "12", "40s", "30000ms", "1m", "11", "5")}
WAVELET: Final[Sequence[Choices]] = (
    {"method": ("haar", "db2", "db4", "db6", "db8", "DB4"), "?layer": ("1", "2")},
    {"coef": ("0.7071067811865475,0.7071067811865475", "0.5,0.5,-0.5,0.5"), "?layer": ("1",)},
)
INSTANT: Final = ("2023-11-14 22:13:20", "2023-11-14 22:14:00", "2023-11-14 22:13:30")

LIBRARY_FUNCTIONS: Final[Mapping[str, Registered]] = {
    "completeness": library("dquality.UDTFCompleteness", {**WINDOW, "?downtime": ("true", "false")}),
    "consistency": library("dquality.UDTFConsistency", WINDOW),
    "timeliness": library("dquality.UDTFTimeliness", WINDOW),
    "validity": library("dquality.UDTFValidity", WINDOW),
    "acf": library("dprofile.UDTFACF"),
    "distinct": library("dprofile.UDTFDistinct", inputs=("any",)),
    "histogram": library(
        "dprofile.UDTFHistogram", {}, {"min": ("-5", "0", "1.5"), "max": ("5", "100", "9.5"), "?count": ("4", "1", "7")}
    ),
    "integral": library("dprofile.UDAFIntegral", {"?unit": ("1s", "1m", "1S", "1h", "1d")}),
    "integralavg": library("dprofile.UDAFIntegralAvg"),
    "mad": library("dprofile.UDAFMad", {"error": ("0.01", "0.1", "0.001")}),
    "median": library("dprofile.UDAFMedian", {"?error": ("0.01", "0", "0.1")}),
    "minmax": library("dprofile.UDTFMinMax", {}, {"compute": ("stream",), "min": ("0", "-5.5"), "max": ("9", "100")}),
    "mvavg": library("dprofile.UDTFMvAvg", {"?window": ("3", "10", "1", "2", "500")}),
    "pacf": library("dprofile.UDTFPACF", {"?lag": ("5", "1", "10", "1000")}),
    "percentile": library("dprofile.UDAFPercentile", {"?rank": ("0.2", "0.5", "0.95", "0.01"), "?error": ("0.01", "0", "0.1")}),
    "quantile": library("dprofile.UDAFQuantile", {"?rank": ("0.2", "0.5", "0.95", "1"), "?K": ("800", "100")}),
    "period": library("dprofile.UDAFPeriod", device="w"),
    "qlb": library("dprofile.UDTFQLB", {"?lag": ("4", "1", "10")}),
    "re_sample": library(
        "dprofile.UDTFResample",
        {
            "every": ("4s", "5s", "700ms", "1m", "2s"),
            "?interp": ("nan", "ffill", "bfill", "linear"),
            "?aggr": ("mean", "max", "min", "first", "last", "median"),
        },
        {"every": ("4s", "5s"), "?interp": ("linear", "ffill"), "?start": INSTANT, "?end": INSTANT},
    ),
    "sample": library(
        "dprofile.UDTFSample",
        {"method": ("isometric",), "?k": ("5", "1", "7", "100")},
        {"method": ("triangle",), "?k": ("6", "3", "2", "100")},
        {"?method": ("reservoir",), "?k": ("3", "100")},
        inputs=("number",),
    ),
    "segment": library("dprofile.UDTFSegment", {"?output": ("first", "all"), "?error": ("0.5", "0.1", "10", "0")}),
    "skew": library("dprofile.UDAFSkew"),
    "spline": library("dprofile.UDTFSpline", {"points": ("20", "2", "7", "100")}),
    "spread": library("dprofile.UDAFSpread"),
    "zscore": library("dprofile.UDTFZScore", {}, {"compute": ("stream",), "avg": ("1", "-2.5"), "sd": ("2", "0.5")}),
    "iqr": library("anomaly.UDTFIQR", {}, {"compute": ("stream",), "q1": ("-5", "1"), "q3": ("5", "9")}),
    "ksigma": library("anomaly.UDTFKSigma", {"?k": ("1", "1.5", "3", "0"), "?window": ("15", "5", "10000")}),
    "lof": library("anomaly.UDTFLOF", {"?k": ("3", "2", "10"), "?window": ("20", "10000")}, {"method": ("series",), "?k": ("2",)}),
    "lof2": library("anomaly.UDTFLOF", {"?k": ("3", "2"), "?window": ("20",)}, inputs=PAIR),
    "missdetect": library("anomaly.UDTFMissDetect", {"?minlen": ("10", "12", "20")}),
    "range": library("anomaly.UDTFRange", {"lower_bound": ("-5", "0", "2.5"), "upper_bound": ("5", "100", "2")}),
    "twosidedfilter": library("anomaly.UDTFTwoSidedFilter", {"?len": ("5", "3", "1"), "?threshold": ("0.3", "0.5", "0.05")}),
    "outlier": library(
        "anomaly.UDTFOutlier", {"?r": ("5", "0.5", "2"), "?k": ("4", "2", "3"), "w": ("10", "12"), "s": ("5", "3", "10")}, {}
    ),
    "conv": library("frequency.UDTFConv", inputs=PAIR, device="p"),
    "deconv": library("frequency.UDTFDeconv", {"?result": ("quotient", "remainder")}, inputs=PAIR, device="p"),
    "dwt": library("frequency.UDTFDWT", *WAVELET, device="p"),
    "idwt": library("frequency.UDTFIDWT", *WAVELET, device="p"),
    "fft": library(
        "frequency.UDTFFFT",
        {"?result": ("abs", "real", "imag", "angle"), "?compress": ("0.9", "0.5", "1"), "?method": ("uniform", "nonuniform")},
    ),
    "ifft": library(
        "frequency.UDTFIFFT", {"?interval": ("1m", "1s", "500ms"), "?start": ("2021-01-01 00:00:00",)}, inputs=PAIR, device="f"
    ),
    "highpass": library("frequency.UDTFHighPass", {"wpass": ("0.3", "0.5", "0.9", "0.01")}),
    "lowpass": library("frequency.UDTFLowPass", {"wpass": ("0.3", "0.45", "0.9", "0.01")}),
    "envelope": library(
        "frequency.UDFEnvelopeAnalysis", {"?frequency": ("8", "100", "0.5"), "?amplification": ("1", "10", "100")}, device="p"
    ),
    "cov": library("dmatch.UDAFCov", inputs=PAIR),
    "pearson": library("dmatch.UDAFPearson", inputs=PAIR),
    "dtw": library("dmatch.UDAFDtw", inputs=PAIR),
    "ptnsym": library("dmatch.UDTFPtnSym", {"?window": ("6", "4", "10", "1"), "?threshold": ("5", "0.5", "1000")}),
    "xcorr": library("dmatch.UDTFXCorr", inputs=PAIR),
    "timestamprepair": library(
        "drepair.UDTFTimestampRepair", {"?method": ("median", "mode", "cluster")}, {"interval": ("2000", "5s", "1s")}
    ),
    "valuefill": library("drepair.UDTFValueFill", {"?method": ("linear", "previous", "mean", "likelihood", "screen", "ma", "ar")}),
    "valuerepair": library(
        "drepair.UDTFValueRepair",
        {"?method": ("screen",), "?minSpeed": ("-2", "-0.001"), "?maxSpeed": ("2", "0.001")},
        {"method": ("lsgreedy",), "?center": ("0", "0.5"), "?sigma": ("0.5", "0.001")},
    ),
    "consecutivesequences": library("series.UDTFConsecutiveSequences", {"?gap": ("1s", "5s", "2s")}, inputs=ANY_PAIR),
    "consecutivewindows": library(
        "series.UDTFConsecutiveWindows", {"?gap": ("1s", "5s"), "length": ("10s", "3s", "20s")}, inputs=ANY_PAIR
    ),
    "ar": library("dlearn.UDTFAR", {"?p": ("1", "2", "3", "5")}),
    "strreplace": library(
        "string.UDTFStrReplace",
        {
            "target": (",", "on", "o"),
            "replace": ("/", "", "off"),
            "?limit": ("1", "-1", "0"),
            "?offset": ("1", "0"),
            "?reverse": ("true", "false"),
        },
        inputs=("text",),
    ),
    "regexmatch": library(
        "string.UDTFRegexMatch",
        {"regex": ("\\\\d+", "[a-z]+", "o.?")},
        {"regex": ("([a-z]),([a-z])", "(o)(n)"), "?group": ("0", "1", "2")},
        inputs=("text",),
    ),
    "regexreplace": library(
        "string.UDTFRegexReplace",
        {
            "regex": ("o(n)", "([a-z])"),
            "replace": ("[$1]", "", "x"),
            "?limit": ("1", "-1", "2"),
            "?offset": ("1", "0"),
            "?reverse": ("true", "false"),
        },
        inputs=("text",),
    ),
    "regexsplit": library(
        "string.UDTFRegexSplit", {"regex": (",", "[ ,]", "o"), "?index": ("-1", "0", "1", "3")}, inputs=("text",)
    ),
}

SPAN: Final = {
    "displayWindowBegin": (str(START), str(START + 5000), str(START - 5000)),
    "displayWindowEnd": (str(START + 40_000), str(START + 60_000), str(START + 900_000)),
}
SIZE: Final = {"access": ("size",), "windowSize": ("1", "4", "7", "50")}
TIMES: Final = {"access": ("time",), "timeInterval": ("3000", "9000", "20000"), "slidingStep": ("2000", "5000", "20000"), **SPAN}
OPEN_TIMES: Final = {"access": ("time",), "timeInterval": ("3000", "9000", "20000", "700")}
SESSIONS: Final = {"access": ("session",), "sessionGap": ("0", "1000", "2500", "6000")}
STATES: Final = {"access": ("state",), "?delta": ("1", "3", "0")}
EVERY_WINDOW: Final[Sequence[Choices]] = (
    {**SIZE, "?slidingStep": ("1", "2", "6")},
    OPEN_TIMES,
    TIMES,
    SESSIONS,
    {**SESSIONS, **SPAN},
    STATES,
    {**STATES, **SPAN},
)

WINDOW_FUNCTIONS: Final[Mapping[str, Registered]] = {
    "window_start_end": example("WindowStartEnd", *EVERY_WINDOW, inputs=("any",)),
    "accumulator": example("Accumulator", SIZE, TIMES, {}, inputs=("summed",)),
    "counter": example("Counter", SIZE, TIMES, OPEN_TIMES, {}, inputs=("any",)),
}
ROW_FUNCTIONS: Final[Mapping[str, Registered]] = {
    "adder": example("Adder", {"?addend": ("1", "-2.5")}, inputs=PAIR),
    "multiplier": example("Multiplier", {"?a": ("3", "-2"), "?b": ("2", "5")}, inputs=("long",)),
    "max": example("Max", inputs=("int",)),
    "terminate": example("TerminateTester", inputs=("any",)),
    "two_sum": example("TwoSum", inputs=("number", "same")),
}
AGGREGATES: Final[Mapping[str, Registered]] = {
    "udaf_avg": example("UDAFAvg"),
    "udaf_count": example("UDAFCount"),
    "udaf_sum": example("UDAFSum"),
}
MATCHES: Final[Mapping[str, Registered]] = {
    "dtw_match": library("match.UDAFDTWMatch", {"pattern": ("1,5,1", "0,4,2,5"), "threshold": ("0.5", "5", "20", "100")}),
    "pattern_match": library(
        "match.UDAFPatternMatch",
        {"timePattern": ("0,1000,2000",), "valuePattern": ("1,5,1", "3,2,9"), "threshold": ("0.5", "5", "100")},
        {"timePattern": ("0,1,2,3",), "valuePattern": ("0,4,2,5",), "threshold": ("0.5", "5", "100")},
    ),
}
REGISTERED: Final[Mapping[str, Registered]] = {
    **LIBRARY_FUNCTIONS,
    **WINDOW_FUNCTIONS,
    **ROW_FUNCTIONS,
    **AGGREGATES,
    **MATCHES,
}
"""All functions by the names under which calls register them."""
