"""What triggers add to an INSERT of a thousand rows into a device: none, one, and ten of one file and of a file each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from benchmarks.bench import Bench
from benchmarks.cases.inserts import INSERTS_PER_ROUND, TreeInserter
from benchmarks.measure import Timings
from benchmarks.probe import Probe, TimedFunction
from benchmarks.results import Limit, Measurement

DATABASE: Final = "root.insert_triggers"
MODULE: Final = "bench_triggers"
CODE: Final = """
import pyarrow.compute as pc
from headrace.trigger import Trigger

class Highest(Trigger):
    def fire(self, tablet):
        return all(pc.max(column).as_py() < 1e6 for column in tablet.batch.columns[1:])
"""
FILES: Final = 10
SIDES: Final = {
    "1 stateless trigger": (1, 1, 0.003),
    "10 stateless triggers of one file": (10, 1, 0.015),
    "10 stateless triggers of a file each": (10, FILES, 0.015),
}
"""Numbers of triggers and of the files of their classes, and the limit in seconds."""


class Inserter(TreeInserter):
    """Inserts batches into a device that triggers are for."""

    def __init__(self, bench: Bench, number: int, triggers: int, files: int) -> None:
        super().__init__(bench, f"{DATABASE}{number}", 0.0)
        self.triggers = triggers
        for one in range(triggers):
            moment = "BEFORE" if one % 2 == 0 else "AFTER"
            name = f"{MODULE}_{number}_{one}"
            drop_trigger(bench, name)
            bench.tree.execute(
                f"CREATE STATELESS TRIGGER {name} {moment} INSERT ON {self.device}.* AS '{MODULE}{one % files}.Highest'"
            )


def drop_trigger(bench: Bench, name: str) -> None:
    """Drop a trigger that an earlier run has left."""
    if bench.tree.session.context.catalog.triggers.find(name) is not None:
        bench.tree.execute(f"DROP TRIGGER {name}")


def write_code(bench: Bench) -> None:
    """Write the files with the classes; each has its own content, so that they are different artifacts."""
    folder = bench.settings.home_path / "ext" / "trigger"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(FILES):
        (folder / f"{MODULE}{number}.py").write_text(f"{CODE}\nNUMBER = {number}\n")


def insert(inserter: Inserter) -> float:
    """Insert the next batch, and return the seconds that it takes."""
    text = inserter.next_statement()
    start = time.perf_counter()
    inserter.bench.tree.execute(text)
    return time.perf_counter() - start


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure by how much an INSERT with triggers takes longer than the INSERT without them right before it."""
    write_code(bench)
    for number, (name, (triggers, files, limit)) in enumerate(SIDES.items()):
        plain, triggering = Inserter(bench, 2 * number, 0, 1), Inserter(bench, 2 * number + 1, triggers, files)
        insert(plain)
        insert(triggering)  # creates the instances
        added, probe = [], Probe(timed_functions())
        for _ in range(INSERTS_PER_ROUND * bench.sizes.rounds):
            seconds = insert(plain)
            with probe.activate():
                added.append(insert(triggering) - seconds)
        title = f"{name}: added to an INSERT of {plain.rows} rows"
        yield Measurement(title, Timings(tuple(added)), limit=Limit(seconds=limit), parts=probe.timings())


def timed_functions() -> list[TimedFunction]:
    """Return the functions that call triggers."""
    from headrace.trees.firing import Firing

    return [TimedFunction("all BEFORE", Firing, "fire_before"), TimedFunction("all AFTER", Firing, "fire_after")]
