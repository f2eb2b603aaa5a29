"""Which series and times a source selects, and how its parameters are read."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.errors import ProgrammingError
from headrace.model.time import Precision
from headrace.model.types import BIGINT
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.events import DEVICE, TIME, DeviceRows, Measurement
from headrace.pipes.selection import ALL_TIMES, Selection, TicksRange
from headrace.pipes.sources.options import read_options
from headrace.pipes.sources.patterns import pattern_of

SERIES = ["root.db.d1.s", "root.db.d1.s1", "root.db.d1.t", "root.db.d2.s", "root.db2.d1.s", "root.db.`1`.s", "root.db.d10.s"]


def matched(**attributes: str) -> list[str]:
    pattern = pattern_of(PipeAttributes({key.replace("_", "."): value for key, value in attributes.items()}))
    parts = (path.rpartition(".") for path in SERIES)
    return [f"{device}.{name}" for device, _, name in parts if pattern.matches(device, name)]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, SERIES),
        ({"source_pattern": "root.db.d1.s"}, SERIES[:2]),
        ({"pattern": "root.db."}, [path for path in SERIES if not path.startswith("root.db2")]),
        ({"extractor_pattern": "root.db.d1"}, [*SERIES[:3], SERIES[6]]),
        ({"pattern": "root.db.1"}, []),
        ({"source_path": "root.**.d1.s*", "source_pattern": "root"}, [*SERIES[:2], SERIES[4]]),
        ({"pattern": "root.db.d1.*", "pattern_format": "iotdb"}, SERIES[:3]),
        ({"path": "root.db.`1`.**"}, [SERIES[5]]),
    ],
)
def test_patterns(attributes: dict[str, str], expected: list[str]) -> None:
    assert matched(**attributes) == expected


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"source.pattern": "a.b"}, "Pattern \"PrefixPipePattern{pattern='a.b'}\" is illegal."),
        ({"source.path": "root..d"}, "Illegal IoTDBPipePattern: root..d"),
        ({"pattern.format": "regex"}, "Invalid value regex of pattern.format. The value should be one of [prefix, iotdb]"),
        (
            {"source.history.enable": "false", "source.realtime.enable": "false"},
            "Should not set both history.enable and realtime.enable to false.",
        ),
        ({"realtime.enable": "True"}, "Invalid value True of realtime.enable. The value should be one of [true, false]"),
        (
            {"start-time": "2", "end-time": "1"},
            "source.start-time (extractor.start-time) [2] should be less than or equal to "
            "source.end-time (extractor.end-time) [1].",
        ),
        (
            {"history.start-time": "2", "history.end-time": "1"},
            "extractor.history.start-time (source.history.start-time) [2] should be less than or equal to "
            "extractor.history.end-time (source.history.end-time) [1].",
        ),
        ({"history.loose-range": "time, place"}, "Parameters in set [place] are not allowed in 'history.loose-range'"),
        ({"inclusion": "data.insert, schema.nothing"}, "The 'inclusion' string contains illegal path."),
        ({"inclusion.exclusion": "nothing"}, "The 'inclusion.exclusion' string contains illegal path."),
        ({"inclusion": "data", "inclusion.exclusion": "DATA.insert,data.delete"}, "The pipe inclusion content can't be empty."),
        (
            {"inclusion": "data.delete", "path": "root.*.d"},
            "The path pattern root.*.d is not valid for the source. Only prefix or full path is allowed.",
        ),
        ({"mode": "once"}, "Invalid value once of mode. The value should be one of [query, snapshot, subscribe, live]"),
    ],
)
def test_parameters_that_are_not_valid(attributes: dict[str, str], message: str) -> None:
    with pytest.raises(ProgrammingError) as caught:
        read_options(PipeAttributes(attributes), "UTC")
    assert caught.value.message == f"1107: {message}"


def test_times_for_both_phases_replace_those_of_the_history() -> None:
    attributes = {"history.enable": "false", "history.start-time": "5", "start-time": "1970-01-01T00:00:01+00:00"}
    options = read_options(PipeAttributes(attributes), "UTC")
    assert options.history == options.realtime
    assert options.history is not None
    assert options.history.ticks(Precision.MICROSECOND) == TicksRange(1_000_000, None)


@pytest.mark.parametrize(
    "text",
    [
        *("2011.12.03T10:15:30+01:00", "2011/12/03T10:15:30+01:00", "2011-12-03T10:15:30+01:00", "2011-12-03T09:15:30Z"),
        *("2011.12.03 09:15:30", "2011/12/03 09:15:30", "2011-12-03 09:15:30.0", "2011/12/03 10:15:30.000000000+01:00"),
    ],
)
def test_times_have_all_forms_of_iotdb(text: str) -> None:
    options = read_options(PipeAttributes({"source.history.start-time": text}), "UTC")
    assert options.history is not None
    assert options.history.ticks(Precision.MILLISECOND) == TicksRange(1_322_903_730_000, None)


@pytest.mark.parametrize("text", ["2011-12/03T10:15:30", "2011-02-30", "2011.12.03T24:00:00", "yesterday", ""])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ProgrammingError, match="is not a time"):
        read_options(PipeAttributes({"source.history.start-time": text}), "UTC")


def test_equal_times_are_a_range() -> None:
    options = read_options(PipeAttributes({"start-time": "7", "end-time": "7"}), "UTC")
    assert options.realtime is not None
    assert options.realtime.ticks(Precision.MILLISECOND) == TicksRange(7, 7)


def rows_of(*rows: tuple[str, int, int | None, int | None]) -> DeviceRows:
    devices, times, a, b = zip(*rows, strict=True)
    table = pa.table(
        {
            TIME: pa.array(times, pa.int64()),
            DEVICE: pa.array(devices).dictionary_encode(),
            "s": pa.array(a, pa.int64()),
            "t": pa.array(b, pa.int64()),
        }
    )
    return DeviceRows(table, {name: Measurement(name, BIGINT) for name in ("s", "t")}, Precision.MILLISECOND, "root.db")


def selected(pattern: str, data: DeviceRows, times: TicksRange = ALL_TIMES) -> list[dict[str, object]] | None:
    result = Selection(pattern_of(PipeAttributes({"path": pattern}))).apply(data, times)
    return None if result is None else [{**row, DEVICE: row[DEVICE]} for row in result.rows.to_pylist()]


def test_values_of_other_series_and_rows_without_values_are_left_out() -> None:
    data = rows_of(("root.db.d1", 1, 1, 2), ("root.db.d2", 2, 3, 4), ("root.db.d1", 3, None, 5))
    assert selected("root.db.d1.s", data) == [{TIME: 1, DEVICE: "root.db.d1", "s": 1}]


def test_times_are_inclusive() -> None:
    data = rows_of(*(("root.db.d1", time, time, time) for time in range(5)))
    assert [row[TIME] for row in selected("root.**", data, TicksRange(1, 3)) or []] == [1, 2, 3]


def test_nothing_selected_is_none() -> None:
    assert selected("root.other.**", rows_of(("root.db.d1", 1, 1, 2))) is None
