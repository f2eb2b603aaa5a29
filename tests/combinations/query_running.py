"""Plays many continuous queries of one home, and compares their targets with the evaluator's and with VERIFY."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import headrace
from headrace.errors import Error, NotSupportedError
from headrace.model.failpoints import FailpointError, armed
from headrace.settings import load
from tests.combinations.homes import PlayedHome
from tests.combinations.query_playing import SCALES, Play

KILLED: Final = "queries.execution.written:1:raise"


@dataclass
class Home(PlayedHome[Play]):
    """A home with databases for each combination, played side by side. All have the same scale, zone and stop."""

    def __post_init__(self) -> None:
        self.scale = SCALES[self.plays[0].combination["scale"]]
        self.now = self.scale.base
        self.open()

    def open(self) -> None:
        settings = load(home=self.folder, dialect="iotdb", timezone=self.plays[0].combination["zone"])
        self.connection = headrace.connect(settings=settings, clock=headrace.ManualClock(self.now))

    def play(self) -> None:
        """Play all combinations to the end."""
        self.each(lambda play: [*play.setup(), *play.append(-45, 0)])
        self.each(lambda play: play.create(self.now))
        self.settle()
        self.each(lambda play: play.append(0, 21))
        self.pass_time(21)
        self.each(lambda play: play.happen(play.combination["first"], self.now))
        self.pass_time(42)
        self.stop()
        self.each(lambda play: [*play.append(21, 60), *play.resume()])
        self.pass_time(105)
        self.each(lambda play: [*play.append(60, 126), *play.happen(play.combination["second"], self.now)])
        self.pass_time(127)
        self.each(Play.resume)
        self.pass_time(128)
        for play in self.plays:
            if play.name not in self.problems:
                self.judge(play)

    def pass_time(self, unit: int) -> None:
        self.now = self.scale.base + unit * self.scale.unit
        self.connection.clock.set(self.now)
        self.settle()

    def settle(self) -> None:
        try:
            self.connection.settle()
        except Error as error:
            self.problems.setdefault("settle", f"{error}")
        for play in self.plays:
            play.execute(self.now)

    def stop(self) -> None:
        """Open the home again, or let an execution die once it has written."""
        match self.plays[0].combination["stop"]:
            case "restart":
                self.connection.close()
                self.open()
            case "kill":
                self.now = self.scale.base + 63 * self.scale.unit
                self.connection.clock.set(self.now)
                with armed(KILLED), suppress(FailpointError, Error):
                    self.connection.settle()
                self.settle()

    # Judging

    def judge(self, play: Play) -> None:
        """Compare the targets with the evaluator's, and with VERIFY's verdict of the latest execution."""
        try:
            found = self.target(play)
            wanted = {place: points for place, points in play.target.items() if points}
            differences = [
                f"{place} at {time}: {wanted.get(place, {}).get(time)}, {found.get(place, {}).get(time)}"
                for place in sorted(wanted.keys() | found.keys())
                for time in sorted(wanted.get(place, {}).keys() | found.get(place, {}).keys())
                if not is_same(wanted.get(place, {}).get(time), found.get(place, {}).get(time))
            ]
            if differences:
                self.note(play, "\n  ".join([f"{len(differences)} of (series, time): expected, found", *differences[:4]]))
            elif play.done is not None and (problem := self.verify(play)):
                self.note(play, f"VERIFY: {problem}")
        except Error as error:
            self.note(play, f"{error}")

    def verify(self, play: Play) -> str | None:
        """Return what is wrong about VERIFY's verdict of the latest execution, or None."""
        try:
            verification = self.connection.verify(cq=f"c{play.name}")
            return None if verification.equal else f"{verification.difference}"
        except NotSupportedError:
            chosen = play.combination
            if chosen["level"] != "none" and (
                chosen["condition"] != "none" or chosen["aggregate"] in ("first_value", "last_value")
            ):
                return None
            raise

    def target(self, play: Play) -> dict[tuple[str, str], dict[int, Any]]:
        """Return the points of all series but those of the sources."""
        paths = [f"root.p{play.name}.out.**", f"root.q{play.name}.**"]
        answer = self.connection.execute(f"select * from {', '.join(paths)}")
        found: dict[tuple[str, str], dict[int, Any]] = {}
        names = [column[0] for column in answer.description or ()]
        for time, *values in answer.fetchall():
            for name, value in zip(names[1:], values, strict=True):
                if value is not None:
                    device, _, measurement = name.rpartition(".")
                    found.setdefault((device, measurement), {})[round(time.timestamp() * 1000)] = value
        return found


def is_same(one: Any, other: Any) -> bool:
    if (
        not isinstance(one, bool)
        and isinstance(one, int | float)
        and not isinstance(other, bool)
        and isinstance(other, int | float)
    ):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return type(one) is type(other) and bool(one == other)
