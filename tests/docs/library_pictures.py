"""The pictures of `docs/reference/functions-library.md`, drawn from what the functions return for the examples of the page.

`python -m tests.docs.library_pictures` writes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from headrace.code.function_classes import LibraryClass
from headrace.library import IOTDB_LIBRARY
from headrace.library.signatures import SIGNATURES
from headrace.udf import Parameters, Type
from tests.docs.charts import Curve, Panel, Points, Style, draw
from tests.library.examples import PAGE, Example, examples

FOLDER: Final = PAGE.parent / "library"
MARKED: Final = ("iqr", "ksigma", "outlier", "range")
"""Functions that return some points of a series."""
OVERLAID: Final = (
    *("highpass", "lowpass", "re_sample", "sample", "segment", "spline"),
    *("timestamprepair", "twosidedfilter", "valuefill", "valuerepair"),
)
"""Functions that return a series like their input, which is drawn over it."""
QUALITY: Final = ("completeness", "consistency", "timeliness", "validity")
SHARED: Final = (*QUALITY, *("cov", "pearson", "dtw"), *("integral", "integralavg"))
STATISTICS: Final = ("mad", "median", "percentile", "quantile", "skew", "spread")
COLORS: Final = ("orange", "violet", "green", "blue")
PATTERNS: Final = {
    "dtw_match": {"pattern": "2,6,2", "threshold": "1"},
    "pattern_match": {"timePattern": "0,2,4", "valuePattern": "2,6,2", "threshold": "0.5"},
}
PATTERN_VALUES: Final = (1, 2, 2, 4, 6, 4, 2, 2, 3, 3, 1, 2, 6, 2, 1, 1, 1, 5, 5, 1)


def figures() -> dict[str, tuple[str, list[Panel]]]:
    """Return title and panels of each picture by the name of its file."""
    by_name = {example.name: example for example in examples()}
    own = {name: one for name, one in by_name.items() if name not in (*SHARED, *STATISTICS)}
    pictures = {name: (f"An example of {name}", function_panels(example)) for name, example in own.items()}
    for name, attributes in PATTERNS.items():
        pictures[name] = (f"Where {name} finds a pattern", pattern_panels(name, attributes))
    pictures["quality"] = ("Four series and their scores", [panel for name in QUALITY for panel in one_value(by_name[name])])
    pictures["statistics"] = ("Figures of a series", [statistics(by_name["mad"])])
    pictures["integral"] = ("The area below a series", [integral(by_name["integral"])])
    pictures["pairs"] = ("Two series and how alike they are", [pairs(by_name["cov"])])
    return pictures


def function_panels(example: Example) -> list[Panel]:
    """Return the input and the result of a function that returns a series."""
    inputs = input_curves(example)
    results = [numbers(example.points(call)) for call in example.calls]
    labels = [call.text for call in example.calls]
    if example.name == "period":
        return list(one_value(example))
    if example.name in (*MARKED, *OVERLAID):
        style = Style.RINGS if example.name in MARKED else Style.LINE
        shown = [Curve(label, points, color, style) for label, points, color in zip(labels, results, COLORS, strict=False)]
        return [Panel((*inputs, *shown))]
    below = [(Curve(label, points, "orange", Style.STEMS),) for label, points in zip(labels, results, strict=True)]
    return [Panel(curves, times=example.times) for curves in (inputs, *below)]


def input_curves(example: Example) -> tuple[Curve, ...]:
    colors = ("blue", "green")
    return tuple(
        Curve(name, numbers(dict(zip(example.times, values, strict=True))), color, Style.DOTS)
        for (name, values), color in zip(example.series.items(), colors, strict=False)
    )


def numbers(points: Mapping[int, Any]) -> Points:
    """Return points as numbers, without NULL."""
    return {time: float(value) for time, value in points.items() if value is not None}


def one_value(example: Example) -> Iterator[Panel]:
    """Yield a panel of the input, with the value as a note."""
    for call in example.calls:
        (value,) = example.points(call).values()
        yield Panel(input_curves(example), notes=(f"{call.text} = {value:.4g}",), height=56)


def value_of(example: Example, name: str, **attributes: str) -> float:
    """Return the value of a function over the series of an example."""
    arguments = list(example.series)[: SIGNATURES[name].inputs]
    (value,) = example.evaluate(IOTDB_LIBRARY + SIGNATURES[name].class_name, arguments, attributes).values()
    return float(value)


def statistics(example: Example) -> Panel:
    """Return a series with its median, quantile, spread and the median distance from the median."""
    median, mad, quantile = (value_of(example, name) for name in ("median", "mad", "quantile"))
    upper = value_of(example, "quantile", rank="0.8")
    percentile, spread, skew = (value_of(example, name) for name in ("percentile", "spread", "skew"))
    (series,) = input_curves(example)
    lowest = min(series.points.values())
    levels = (
        Curve(f"mad(s) = {mad:g}, around the median", {0: median - mad, 1: median + mad}, "violet", Style.BAND),
        Curve(f"median(s) = {median:g}", {0: median}, "orange", Style.LEVEL),
        Curve(f"quantile(s, 'rank'='0.8') = {upper:g}", {0: upper}, "green", Style.LEVEL),
        Curve(f"spread(s) = {spread:g}", {0: lowest, 1: lowest + spread}, "blue", Style.BRACKET),
    )
    notes = (f"percentile(s) = {percentile:g}, quantile(s) = {quantile:g}, skew(s) = {skew:.3f}",)
    return Panel((*levels, series), notes=notes, height=130)


def integral(example: Example) -> Panel:
    """Return a series with the area below it, and its average over time."""
    (series,) = input_curves(example)
    area = Curve(f"integral(s) = {value_of(example, 'integral'):g}", series.points, "violet", Style.AREA)
    average = value_of(example, "integralavg")
    return Panel((area, series, Curve(f"integralavg(s) = {average:.4g}", {0: average}, "orange", Style.LEVEL)))


def pairs(example: Example) -> Panel:
    """Return two series with their covariance, correlation and distance."""
    values = (f"{name}(x, y) = {value_of(example, name):.4g}" for name in ("cov", "pearson", "dtw"))
    return Panel(input_curves(example), notes=(", ".join(values),))


def pattern_panels(name: str, attributes: dict[str, str]) -> list[Panel]:
    """Return the pattern, and a series with the places that look like it."""
    rows = pa.table(
        {
            "group": pa.array([0] * len(PATTERN_VALUES)),
            "time": range(len(PATTERN_VALUES)),
            "x0": pa.array(PATTERN_VALUES, pa.float64()),
        }
    )
    source = LibraryClass(IOTDB_LIBRARY + SIGNATURES[name].class_name)
    places = json.loads(source.aggregate_values(Parameters([Type.DOUBLE], attributes), rows, 1)[0].as_py())
    values = [float(text) for text in attributes.get("pattern", attributes.get("valuePattern", "")).split(",")]
    times = [int(text) for text in attributes.get("timePattern", "0,1,2").split(",")]
    matches = (matched_points(place) for place in places)
    shown = [Curve(f"match {number}", points, "orange", Style.LINE) for number, points in enumerate(matches, 1)]
    pattern = Curve("the pattern", dict(zip(times, values, strict=True)), "violet", Style.LINE)
    series = Curve("s", dict(enumerate(map(float, PATTERN_VALUES))), "blue", Style.DOTS)
    return [Panel((pattern,), height=56), Panel((series, *shown), notes=(f"{name} with 'threshold'='{attributes['threshold']}'",))]


def matched_points(place: Mapping[str, int]) -> Points:
    """Return the points of a series that look like a pattern."""
    return {time: float(PATTERN_VALUES[time]) for time in range(place["startTime"], place["endTime"] + 1)}


def image(name: str, title: str) -> str:
    """Return the link of the page to a picture."""
    return f"![{title}](library/{name}.svg)"


def main() -> None:
    """Write all pictures, and remove those of functions that are not there any more."""
    FOLDER.mkdir(exist_ok=True)
    drawn = {f"{name}.svg": draw(title, panels) for name, (title, panels) in figures().items()}
    for name, text in drawn.items():
        (FOLDER / name).write_text(text)
    for stale in {file.name for file in FOLDER.glob("*.svg")} - drawn.keys():
        (FOLDER / stale).unlink()


if __name__ == "__main__":
    main()
