"""Plays a combination of a pipe's dimensions: its statements, its rows, and what the evaluator makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.combinations.covering import Combination
from tests.combinations.pipe_dimensions import DELETES
from tests.combinations.pipe_evaluator import DEVIATION, SAMPLED_S, SECOND, WINDOW_MS, Point, Processor

BASE: Final = 1_700_000_000_000
DEVICES: Final = {"d1": 2, "d10": 3, "d2": 4}
"""Devices, and the seconds between their rows."""
NEW: Final = ("d3", 3)
TYPES: Final = {"a": "INT64", "b": "DOUBLE", "c": "INT64"}
SERIES: Final[dict[str, tuple[str, Any]]] = {
    "all": ("'path'='root.p{}.**'", lambda *_: True),
    "prefix": ("'pattern'='root.p{}.d1'", lambda device, _: device.startswith("d1")),
    "wildcard": ("'path'='root.p{}.*.a'", lambda _, name: name == "a"),
    "nodes": ("'pattern'='root.p{}.d1*.*', 'pattern.format'='iotdb'", lambda device, _: device.startswith("d1")),
}
INCLUSIONS: Final = {
    "default": "",
    "insert": "'inclusion'='data.insert'",
    "data": "'inclusion'='data'",
    "excluded": "'inclusion'='data', 'inclusion.exclusion'='data.delete'",
    "delete": "'inclusion'='data.delete'",
    "none": "'inclusion'='data.delete', 'inclusion.exclusion'='data'",
}
LOW, HIGH = BASE + 6 * SECOND, BASE + 44 * SECOND
LIMITS: Final[dict[str, tuple[int | None, int | None]]] = {
    "none": (None, None),
    "start": (LOW, None),
    "end": (None, HIGH),
    "both": (LOW, HIGH),
    "swapped": (HIGH, LOW),
    "on": (None, None),
    "off": (None, None),
    "since": (LOW, None),
    "until": (None, BASE + 14 * SECOND),
}
PROCESSORS: Final = {
    "default": "",
    "do-nothing": "'processor'='do-nothing-processor'",
    "tumbling": f"'processor'='tumbling-time-sampling-processor', 'tumbling-time.interval-seconds'='{SAMPLED_S}'",
    "changing": f"'processor'='changing-value-sampling-processor', 'changing-value.compression-deviation'='{DEVIATION}'",
    "aggregate": "'processor'='aggregate-processor', 'operators'='count,max', "
    f"'sliding.seconds'='{WINDOW_MS // SECOND}', 'output.database'='root.q{{}}'",
    "counting": "'processor'='count-point-processor', 'output-series'='root.q{}.counts.points'",
    "plugin": "'processor'='doubled'",
    "no operators": "'processor'='aggregate-processor'",
    "misspelled": "'processor'='tumbling-time-sampling-processor', 'tumbling-time.seconds'='7'",
}
CODE: Final = """
from headrace.pipe import PipeProcessor, TabletEvent

class Doubled(PipeProcessor):
    def process(self, tablet, collector):
        device = tablet.device_id.replace("root.p", "root.q")
        for row in tablet:
            values = {name: [2 * value] for name, value in row.items() if value is not None}
            collector.collect(TabletEvent.of(device, [row.time], values))
"""


@dataclass
class Play:
    """A combination in a database of its own. What is written arrives at the evaluator when it does at the pipe."""

    combination: Combination
    name: str
    folder: Path = Path()
    stored: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)
    received: dict[Point, Any] = field(default_factory=dict)
    is_created: bool = False

    def __post_init__(self) -> None:
        self.processor = Processor(self.combination["processor"], (f"root.p{self.name}", f"root.q{self.name}"))

    # The pipe

    def statement(self) -> str:
        chosen = self.combination
        processor = PROCESSORS[chosen["processor"]].format(self.name)
        return (
            f"create pipe c{self.name} with source ({', '.join(self.source())})"
            f"{processor and f' with processor ({processor})'} with sink ({self.sink()})"
        )

    def source(self) -> Iterator[str]:
        chosen = self.combination
        yield SERIES[chosen["series"]][0].format(self.name)
        if INCLUSIONS[chosen["inclusion"]]:
            yield INCLUSIONS[chosen["inclusion"]]
        history = ("history.", LIMITS["swapped" if chosen["history"] == "swapped" else chosen["history"]])
        for prefix, limits in (("", LIMITS[chosen["times"]]), history):
            for name, limit in zip(("start", "end"), limits, strict=True):
                if limit is not None:
                    yield f"'{prefix}{name}-time'='{limit}'"
        if chosen["history"] == "off":
            yield "'history.enable'='false'"
        if chosen["realtime"] == "off":
            yield "'realtime.enable'='false'"
        if chosen["mode"] == "snapshot":
            yield "'mode'='snapshot'"

    def sink(self) -> str:
        match self.combination["sink"]:
            case "delta":
                return f"'sink'='delta-sink', 'uri'='{self.uri}'"
            case "one folder":
                return f"'sink'='delta-sink', 'uri'='{self.uri}', 'partition-by-day'='false'"
            case "no uri":
                return "'sink'='delta-sink'"
            case "recording":
                return f"'sink'='recording-sink', 'name'='{self.name}'"
        return f"'sink'='{'do-nothing' if self.combination['sink'] == 'nothing' else 'write-back'}-sink'"

    @property
    def uri(self) -> Path:
        return self.folder / f"delta{self.name}"

    # What arrives

    @property
    def has_history(self) -> bool:
        """Whether the pipe transfers what there is: a range of time of all that is transferred has the history too."""
        return self.combination["history"] != "off" or self.combination["times"] != "none" or self.is_snapshot

    @property
    def has_realtime(self) -> bool:
        return self.combination["realtime"] == "on" and not self.is_snapshot

    @property
    def is_snapshot(self) -> bool:
        return self.combination["mode"] == "snapshot"

    def create(self) -> list[str]:
        self.is_created = True
        if self.has_history and self.combination["inclusion"] != "delete":
            common = LIMITS[self.combination["times"]]
            limits = common if common != (None, None) else LIMITS[self.combination["history"]]
            for device in sorted(self.stored):
                for time, values in sorted(self.stored[device].items()):
                    self.arrive(device, time, values, limits)
        return [self.statement()]

    def arrive(self, device: str, time: int, values: dict[str, Any], limits: tuple[int | None, int | None]) -> None:
        """Let the source read a row."""
        matches, (low, high) = SERIES[self.combination["series"]][1], limits
        own = {name: value for name, value in sorted(values.items()) if matches(device, name)}
        if own and (low is None or time >= low) and (high is None or time <= high):
            self.received |= dict(self.processor.process(f"root.p{self.name}.{device}", time, own))

    def insert(self, device: str, rows: dict[int, dict[str, Any]]) -> list[str]:
        """Return the INSERT of rows of equal measurements. A pipe gets the values that change."""
        own = self.stored.setdefault(device, {})
        for time, values in sorted(rows.items()):
            present = own.setdefault(time, {})
            changed = {name: value for name, value in values.items() if value is not None and present.get(name) != value}
            present |= changed
            if changed and self.is_created and self.has_realtime and self.combination["inclusion"] != "delete":
                self.arrive(device, time, changed, LIMITS[self.combination["times"]])
        names = list(next(iter(rows.values())))
        texts = ", ".join(
            f"({time}, {', '.join('null' if values[name] is None else str(values[name]) for name in names)})"
            for time, values in sorted(rows.items())
        )
        return [f"insert into root.p{self.name}.{device}(time, {', '.join(names)}) values {texts}"]

    def delete(self, device: str, name: str, low: int, high: int) -> list[str]:
        for time, values in self.stored[device].items():
            if low <= time <= high:
                values.pop(name, None)
        since, until = LIMITS[self.combination["times"]]
        if self.is_created and self.has_realtime and self.combination["inclusion"] in DELETES:
            for point in list(self.received):
                is_within = (
                    low <= point[1] <= high and (since is None or point[1] >= since) and (until is None or point[1] <= until)
                )
                if point[0] == f"root.p{self.name}.{device}" and point[2] == name and is_within:
                    del self.received[point]
        return [f"delete from root.p{self.name}.{device}.{name} where time >= {low} and time <= {high}"]

    # What happens

    def setup(self) -> Iterator[str]:
        yield f"create database root.p{self.name}"
        yield f"create database root.q{self.name}"
        for device in DEVICES:
            yield from self.create_series(device, "ab")

    def create_series(self, device: str, names: str) -> Iterator[str]:
        for name in names:
            yield f"create timeseries root.p{self.name}.{device}.{name} with datatype={TYPES[name]}"

    def append(self, first: int, last: int) -> list[str]:
        devices = [*DEVICES.items(), *([NEW] if NEW[0] in self.stored else [])]
        return [
            sql
            for device, step in devices
            for sql in self.insert(device, {BASE + s * SECOND: row(s) for s in range(first, last, step)})
        ]

    def happen(self, event: str, second: int) -> Iterator[list[str]]:
        """Yield groups of statements; all that is written arrives after each."""
        match event:
            case "late":
                yield self.insert("d1", {BASE + (second - back) * SECOND + 500: row(back) for back in (13, 9, 2)})
            case "corrected":
                yield self.insert("d1", {BASE + s * SECOND: {"a": s * 3 % 8, "b": row(s)["b"]} for s in range(0, second, 4)})
            case "deleted":
                yield self.delete("d1", "a", BASE + 3 * SECOND, BASE + (second - 4) * SECOND)
            case "rewritten":
                yield [
                    *self.delete("d10", "a", BASE + 3 * SECOND, BASE + (second - 4) * SECOND),
                    *self.insert("d10", {BASE + s * SECOND: {"a": s} for s in range(6, second, 6)}),
                ]
            case "device":
                yield [
                    *self.create_series(NEW[0], "ab"),
                    *self.insert(NEW[0], {BASE + s * SECOND: row(s) for s in range(0, second, 3)}),
                ]
            case "measurement":
                yield self.insert("d1", {BASE + s * SECOND: {"c": s} for s in range(0, second, 5)})
            case "stopped":
                yield [f"stop pipe c{self.name}"]
                yield self.append(second, second + 9)
                yield self.insert("d1", {BASE + s * SECOND: {"a": -s} for s in range(0, second, 5)})
                yield [f"start pipe c{self.name}"]
            case "altered":
                yield [f"alter pipe c{self.name} modify sink ('note'='{second}')"]
        yield self.append(second + 9, second + 15)


def row(second: int) -> dict[str, Any]:
    return {"a": None if second % 5 == 4 else second * 7 % 11, "b": second * 5 % 9 + 0.5}
