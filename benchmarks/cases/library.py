"""The functions of the library: a call over one series in memory, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from benchmarks.bench import Bench
from benchmarks.measure import interleave, time_call
from benchmarks.results import Limit, Measurement
from headrace.code.function_classes import LibraryClass
from headrace.library import IOTDB_LIBRARY
from headrace.library.signatures import SIGNATURES
from headrace.udf import Parameters, Type

POINTS_PER_SECOND: Final = 5_000_000
"""The goal of functions whose cost is in proportion to the number of points."""
POINTS: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Call:
    """A call: its attributes, inputs and points, and whether the cost is in proportion to the points."""

    attributes: dict[str, str]
    inputs: int = 1
    points: int = POINTS
    is_linear: bool = True


def linear(inputs: int = 1, **attributes: str) -> Call:
    return Call(attributes, inputs)


def other(points: int = POINTS, inputs: int = 1, **attributes: str) -> Call:
    return Call(attributes, inputs, points, is_linear=False)


CALLS: Final = {
    "acf": other(),
    "ar": linear(p="3"),
    "cluster": other(l="16", k="3", maxiter="20"),
    "completeness": linear(),
    "consecutivesequences": linear(inputs=2),
    "consecutivewindows": linear(inputs=2, length="1m"),
    "consistency": linear(),
    "conv": other(inputs=2),
    "cov": linear(inputs=2),
    "deconv": other(10_000, inputs=2),
    "distinct": other(),
    "dtw": other(10_000, inputs=2),
    "dtw_match": other(pattern="1,2,3,4,5,6,5,4,3,2", threshold="1"),
    "dwt": linear(method="db4"),
    "envelope": other(),
    "fft": other(),
    "highpass": other(wpass="0.3"),
    "histogram": linear(min="-10", max="10", count="100"),
    "idwt": linear(method="db4"),
    "ifft": other(inputs=2),
    "integral": linear(),
    "integralavg": linear(),
    "iqr": linear(),
    "ksigma": linear(),
    "lof": other(),
    "lowpass": other(wpass="0.3"),
    "mad": linear(),
    "median": linear(),
    "minmax": linear(),
    "missdetect": linear(),
    "mvavg": linear(),
    "outlier": other(),
    "pacf": other(),
    "pattern_match": other(100_000, timePattern="0,10,20", valuePattern="0,5,0", threshold="1"),
    "pearson": linear(inputs=2),
    "percentile": linear(),
    "period": other(),
    "ptnsym": linear(),
    "qlb": other(),
    "quantile": linear(),
    "range": linear(lower_bound="-1", upper_bound="1"),
    "re_sample": linear(every="5s", interp="linear"),
    "sample": linear(method="isometric", k="1000"),
    "segment": other(20_000),
    "skew": linear(),
    "spline": linear(points="1000000"),
    "spread": linear(),
    "timeliness": linear(),
    "timestamprepair": other(5_000),
    "twosidedfilter": linear(),
    "validity": linear(),
    "valuefill": linear(),
    "valuerepair": linear(),
    "xcorr": other(inputs=2),
    "zscore": linear(),
}


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure each function."""
    for name, call in CALLS.items():
        work = prepare(name, call)
        timings = interleave({"headrace": time_call(work)}, bench.sizes.rounds, bench.log)["headrace"]
        limit = Limit(seconds=call.points / POINTS_PER_SECOND) if call.is_linear else None
        speed = f"{call.points / timings.median / 1e6:.3g} M points/s"
        yield Measurement(f"{name} of {call.points:,} points", timings, limit=limit, note=speed)


def prepare(name: str, call: Call) -> Callable[[], object]:
    """Return a call over series that are waves with noise, without gaps but with a time that differs by a tick now and then."""
    generator = np.random.default_rng(7)
    times = np.arange(call.points) * 1000 + (0 if name in NEEDS_REGULAR_TIMES else generator.integers(0, 100, call.points))
    if name == "ifft":
        times = np.arange(call.points)
    columns = {
        f"x{number}": np.sin(np.arange(call.points) / 50 + number) * 5 + generator.normal(size=call.points)
        for number in range(call.inputs)
    }
    if name == "deconv":
        columns["x1"] = np.where(np.arange(call.points) < call.points // 2, columns["x1"], np.nan)
    groups = pa.array(np.zeros(call.points, np.int64))
    rows = pa.table({"group": groups, "time": times, **columns})
    source = LibraryClass(IOTDB_LIBRARY + SIGNATURES[name].class_name)
    parameters = Parameters([Type.DOUBLE] * call.inputs, call.attributes)
    if SIGNATURES[name].is_aggregate:
        return partial(source.aggregate_values, parameters, rows, 1)
    series = rows.rename_columns(["series", *rows.column_names[1:]])
    return lambda: source.open_series(parameters).process(series, more=False)


NEEDS_REGULAR_TIMES: Final = ("ar", "consecutivesequences", "consecutivewindows")
"""Functions that add points where an interval is longer, or cut the series there."""
