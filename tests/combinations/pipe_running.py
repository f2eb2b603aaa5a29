"""Plays many pipes of one home, and compares what their sinks got with the evaluator's points."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

import headrace
from headrace.errors import Error
from headrace.model.failpoints import FailpointError, armed
from tests.combinations.homes import PlayedHome
from tests.combinations.pipe_evaluator import SECOND, Point
from tests.combinations.pipe_playing import BASE, CODE, Play
from tests.pipes.receivers import apply_events
from tests.pipes.recording import RECORDERS


@dataclass
class Home(PlayedHome[Play]):
    """A home with databases for each combination, played side by side. All have the same stop."""

    def __post_init__(self) -> None:
        plugins = self.folder / "home" / "ext" / "pipe"
        plugins.mkdir(parents=True, exist_ok=True)
        (plugins / "doubling.py").write_text(CODE)
        self.now = BASE + 1000 * SECOND
        for play in self.plays:
            play.folder = self.folder
        self.open()

    def open(self) -> None:
        clock = headrace.ManualClock(self.now)
        self.connection = headrace.connect(self.folder / "home", dialect="iotdb", clock=clock)

    def play(self) -> None:
        """Play all combinations to the end."""
        self.connection.execute("create pipeplugin doubled as 'doubling.Doubled'")
        self.each(lambda play: [*play.setup(), *play.append(0, 20)])
        self.each(Play.create)
        self.each(lambda play: play.append(20, 30) if play.combination["begin"] == "later" else [])
        self.settle()
        self.each(lambda play: play.append(20, 30) if play.combination["begin"] != "later" else [])
        self.settle()
        self.happen("first", 30)
        self.each(lambda play: play.append(45, 50))
        self.stop()
        self.settle()
        self.happen("second", 50)
        for play in self.plays:
            if play.name not in self.problems:
                self.judge(play)

    def happen(self, event: str, second: int) -> None:
        """Play the groups of statements of an event, all plays at once."""
        groups = {play.name: list(play.happen(play.combination[event], second)) for play in self.plays}
        for _ in range(max(len(own) for own in groups.values())):
            self.each(lambda play: groups[play.name].pop(0) if groups[play.name] else [])
            self.settle()

    def settle(self) -> None:
        self.now += SECOND
        self.connection.clock.set(self.now)
        self.connection.settle()

    def stop(self) -> None:
        """Open the home again, after the death of a driver if the combinations ask for it."""
        stop = self.plays[0].combination["stop"]
        if stop not in ("none", "restart"):
            with armed(f"pipes.{stop}:2:raise"), suppress(FailpointError, Error):
                self.connection.settle()
        if stop != "none":
            self.connection.close()
            self.open()

    # Judging

    def judge(self, play: Play) -> None:
        """Compare what the sink got, and the state of the pipe, with what the evaluator expects."""
        try:
            self.compare(play)
        except Error as error:
            self.note(play, f"{error}")

    def compare(self, play: Play) -> None:
        states = [tuple(row)[2::4] for row in self.connection.execute(f"show pipe c{play.name}").fetchall()]
        found, wanted = self.found(play), self.wanted(play)
        differences = [
            f"{point}: {wanted.get(point)}, {found.get(point)}"
            for point in sorted(wanted.keys() | found.keys())
            if wanted.get(point) != found.get(point)
        ]
        if differences:
            self.note(play, "\n  ".join([f"{len(differences)} points: expected, found", *differences[:5]]))
        elif states != ([] if play.is_snapshot else [("RUNNING", "")]):
            self.note(play, f"SHOW PIPE: {states}")

    def wanted(self, play: Play) -> dict[Point, Any]:
        if play.combination["sink"] == "nothing":
            return {}
        if play.combination["processor"] == "counting":
            return {("counts", 0, "points"): play.processor.counted} if play.processor.counted else {}
        if play.combination["sink"] == "write-back":
            own = {point: value for point, value in play.received.items() if point[0].startswith("root.q")}
            return own | {
                (f"root.p{play.name}.{device}", time, name): value
                for device, rows in play.stored.items()
                for time, values in rows.items()
                for name, value in values.items()
            }
        return play.received

    def found(self, play: Play) -> dict[Point, Any]:
        points: dict[Point, Any] = {}
        match play.combination["sink"]:
            case "delta" | "one folder":
                points = dict(delta_points(play.uri))
            case "recording":
                apply_events(points, RECORDERS[play.name].events())
            case "write-back":
                points = dict(self.tree_points(play))
        if play.combination["processor"] == "counting":
            counts = [value for (device, _, _), value in points.items() if device.startswith("root.q")]
            return {("counts", 0, "points"): max(counts)} if counts else {}
        return points

    def tree_points(self, play: Play) -> Iterator[tuple[Point, Any]]:
        answer = self.connection.execute(f"select * from root.p{play.name}.**, root.q{play.name}.**")
        names = [column[0] for column in answer.description or ()]
        for time, *values in answer.fetchall():
            for name, value in zip(names[1:], values, strict=True):
                if value is not None:
                    device, _, measurement = name.rpartition(".")
                    yield (device, round(time.timestamp() * 1000), measurement), value


def delta_points(uri: Path) -> Iterator[tuple[Point, Any]]:
    """Yield the points of a Delta table. A measurement of several types has a column for each, and values in one of them."""
    if not DeltaTable.is_deltatable(str(uri)):
        return
    for row in DeltaTable(str(uri)).to_pyarrow_table().to_pylist():
        time, device, _ = round(row.pop("time").timestamp() * 1000), row.pop("device"), row.pop("day", None)
        for name, value in row.items():
            if value is not None:
                yield (device, time, name.removesuffix("_double")), value
