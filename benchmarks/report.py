"""Reports of the measurements, as a table and as JSON."""

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

from benchmarks.measure import Timings, format_durations
from benchmarks.results import Limit, Measurement

# With fewer samples, the 95th percentile means nothing.
MIN_SAMPLES_FOR_P95: Final = 20
CAPTION: Final = (
    "median (min - max); ratio = headrace / hand-written, the median over rounds: below 1 headrace is faster; met: all limits"
)
VERDICTS: Final = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine and software versions, and the load average before the benchmarks."""

    processors: int
    memory_gib: float
    load: tuple[float, float, float]
    platform: str
    python: str
    pyspark: str
    delta: str
    deltalake: str

    @classmethod
    def current(cls) -> Machine:
        """Describe this machine."""
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
        load = " ".join(f"{value:.2f}" for value in self.load)
        software = f"Python {self.python}, pyspark {self.pyspark}, delta-spark {self.delta}, deltalake {self.deltalake}"
        return f"{self.processors} processors, {self.memory_gib} GiB, {software}; load before: {load}"


def format_timings(timings: Timings | None) -> str:
    """Format the median and spread of one side."""
    if timings is None:
        return ""
    median, low, high, p95, unit = format_durations(timings.median, timings.min, timings.max, timings.quantile(0.95))
    spread = f" ({low} - {high})" if len(timings.samples) > 1 else ""
    return f"{median} {unit}{spread}" + (f", p95 {p95}" if len(timings.samples) >= MIN_SAMPLES_FOR_P95 else "")


def build_table(lines: Sequence[Measurement]) -> Table:
    """Build the table of measurements: both sides, their ratio, the limit and whether it is met."""
    table = Table(caption=CAPTION, caption_justify="left")
    for name in ("benchmark", "headrace", "hand-written", "ratio", "limit", "met"):
        table.add_column(name, justify="left" if name == "benchmark" else "right", overflow="fold")
    for line in lines:
        ratio = "" if line.ratio is None else f"{line.ratio:.2f} ×"
        limit = "" if line.limit is None else str(line.limit)
        table.add_row(line.name, format_timings(line.ours), format_timings(line.theirs), ratio, limit, VERDICTS[line.is_met])
    return table


def describe_details(line: Measurement) -> list[str]:
    """Return lines on what the table omits: parts, other sides, memory and notes."""
    details = [f"  {name}: {format_timings(value)}" for name, value in line.parts.items()]
    details += [f"  ({name}): {format_timings(value)}{describe_ratio(line, name)}" for name, value in line.others.items()]
    details += [f"  memory of {name}: {peak}" for name, peak in line.peaks.items()]
    details += [f"  {line.note}"] if line.note else []
    return [line.name, *details] if details else []


def describe_ratio(line: Measurement, name: str) -> str:
    """Return the ratio to another side and its limit."""
    limit = line.other_limits.get(name)
    return f"; ratio {line.ratio_to(line.others[name]):.2f} ×" + ("" if limit is None else f", limit {Limit(ratio=limit)}")


def print_report(lines: Sequence[Measurement], machine: Machine, console: Console) -> None:
    """Print the details, the table and the machine."""
    for line in lines:
        for text in describe_details(line):
            console.print(text, markup=False, highlight=False)
    console.print(build_table(lines))
    console.print(str(machine), style="dim", highlight=False)
    console.print(f"load after: {' '.join(f'{value:.2f}' for value in os.getloadavg())}", style="dim", highlight=False)


def save_report(lines: Sequence[Measurement], machine: Machine, file: Path) -> None:
    """Write all samples and the machine as JSON."""
    content = {"machine": asdict(machine), "load_after": os.getloadavg(), "results": [line.as_json() for line in lines]}
    file.write_text(json.dumps(content, indent=2) + "\n")
