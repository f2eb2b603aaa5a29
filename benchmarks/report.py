"""The table of results, as text and as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.measure import Timings, shown
from benchmarks.results import Line

# Fewer samples have no 95th percentile worth the name.
ENOUGH: Final = 20
CAPTION: Final = "median (least - most); ratio = headrace / hand-written: below 1 headrace is faster"
VERDICTS: Final = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}


@dataclass(frozen=True, slots=True)
class Machine:
    """What the figures were taken on, and how busy it was with other things when they began."""

    processors: int
    memory_gib: float
    load: tuple[float, float, float]
    platform: str
    python: str
    pyspark: str
    delta: str
    deltalake: str

    @classmethod
    def here(cls) -> Machine:
        names = ("pyspark", "delta-spark", "deltalake")
        return cls(
            os.cpu_count() or 0,
            round(psutil.virtual_memory().total / (1 << 30), 1),
            os.getloadavg(),
            platform.platform(),
            platform.python_version(),
            *(version(name) for name in names),
        )

    def __str__(self) -> str:
        load = " ".join(f"{each:.2f}" for each in self.load)
        software = f"Python {self.python}, pyspark {self.pyspark}, delta-spark {self.delta}, deltalake {self.deltalake}"
        return f"{self.processors} processors, {self.memory_gib} GiB, {software}; load before: {load}"


def cell(timings: Timings | None) -> str:
    """One side's figures."""
    if timings is None:
        return ""
    median, least, most, slow, unit = shown(timings.median, timings.least, timings.most, timings.quantile(0.95))
    spread = f" ({least} - {most})" if len(timings.samples) > 1 else ""
    return f"{median} {unit}{spread}" + (f", p95 {slow}" if len(timings.samples) >= ENOUGH else "")


def as_table(lines: Sequence[Line]) -> Table:
    """The table: what, both sides, ratio, what is wanted and whether it is met."""
    table = Table(caption=CAPTION, caption_justify="left")
    for name in ("what", "headrace", "hand-written", "ratio", "wanted", "met"):
        table.add_column(name, justify="left" if name == "what" else "right", overflow="fold")
    for line in lines:
        ratio = "" if line.ratio is None else f"{line.ratio:.2f} ×"
        wanted = "" if line.wanted is None else str(line.wanted)
        table.add_row(line.what, cell(line.ours), cell(line.theirs), ratio, wanted, VERDICTS[line.met])
    return table


def details(line: Line) -> list[str]:
    """What the table has no room for: parts, further sides, memory, notes."""
    named = [*line.parts.items(), *((f"({name})", each) for name, each in line.others.items())]
    found = [f"  {name}: {cell(each)}" for name, each in named]
    found += [f"  memory of {name}: {peak}" for name, peak in line.peaks.items()]
    found += [f"  {line.note}"] if line.note else []
    return [line.what, *found] if found else []


def show(lines: Sequence[Line], machine: Machine, console: Console) -> None:
    """Print everything."""
    for line in lines:
        for text in details(line):
            console.print(text, markup=False, highlight=False)
    console.print(as_table(lines))
    console.print(str(machine), style="dim", highlight=False)
    console.print(f"load after: {' '.join(f'{each:.2f}' for each in os.getloadavg())}", style="dim", highlight=False)


def save(lines: Sequence[Line], machine: Machine, file: Path) -> None:
    """Write everything as JSON."""
    content = {"machine": asdict(machine), "load_after": os.getloadavg(), "results": [line.as_json() for line in lines]}
    file.write_text(json.dumps(content, indent=2) + "\n")
