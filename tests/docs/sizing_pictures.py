"""The pictures and the table of `docs/guides/sizing.md`: what breaks first, how well the model predicts, what to set for so much.

`python -m tests.docs.sizing_pictures` writes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from headrace.cli.sizing.advice import driver_bytes, format_bytes
from headrace.cli.sizing.costs import CatalogKind, Kind, measured_costs
from headrace.cli.sizing.estimate import Estimate, Part, estimate, recommend
from headrace.cli.sizing.workload import GIB, Operations, Storage, Workload
from tests.docs.pages import ROOT
from tests.docs.timelines import document, line, text

PAGE: Final = ROOT / "docs/guides/sizing.md"
FOLDER: Final = ROOT / "docs/guides/sizing"
POINTS: Final = ROOT / "benchmarks/capacity/points.json"
"""The last points of `python -m benchmarks capacity`: name, predicted, measured."""
BREAKS: Final = "What breaks first"
CHECKS: Final = "Points, predicted and measured"
DEVICES: Final = (10_000, 100_000, 1_000_000)
STREAMS: Final = (100, 1_000, 10_000)
SNODES: Final = (1, 10, 100)
TABLES: Final = 10
SYSTEMS: Final = tuple((catalog, storage) for storage in Storage for catalog in CatalogKind)
NAMES: Final = {CatalogKind.SQLITE: "SQLite", CatalogKind.POSTGRESQL: "PostgreSQL", Storage.DISK: "disk", Storage.S3: "S3"}
COLORS: Final = {
    Part.COMMITS: "violet",
    Part.LOG: "violet",
    Part.CATALOG: "blue",
    Part.DRIVER: "orange",
    Part.MEMORY: "orange",
    Part.AIRFLOW: "blue",
}
WORDS: Final = {
    Part.COMMITS: "commits",
    Part.LOG: "logs",
    Part.CATALOG: "catalog",
    Part.DRIVER: "driver",
    Part.MEMORY: "memory",
    Part.AIRFLOW: "Airflow",
}
LEFT: Final = 132
TOP: Final = 56
CELL: Final = (64, 22)
GAP: Final = 16
POINT_HEIGHT: Final = 22
MIDDLE: Final = 560
SCALE: Final = 440.0
"""Pixels of a difference of 100 %."""
GENERATED: Final = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
SIZES: Final = (
    *((1_000, 10, 1), (10_000, 100, 10), (100_000, 100, 10)),
    *((100_000, 300, 10), (1_000_000, 100, 20), (1_000_000, 1_000, 100)),
)
"""Devices, streams and tables of the lines of the table."""


def result_of(devices: int, streams: int, snodes: int, catalog: CatalogKind, storage: Storage) -> Estimate:
    """Return what is to be expected of a cell."""
    workload = Workload(devices, 1.0, streams, tables=TABLES, snodes=snodes, catalog=catalog, storage=storage)
    return estimate(workload, measured_costs())


def draw_breaks() -> str:
    """Return the picture of what breaks first."""
    parts, (width, height) = list[str](), CELL
    for column, snodes in enumerate(SNODES):
        x = LEFT + column * (3 * width + GAP)
        parts.append(text("ink", x + 1.5 * width, 22, f"{snodes} snode{'' if snodes == 1 else 's'}"))
        parts += [text("soft", x + (index + 0.5) * width, 42, f"{streams:,}") for index, streams in enumerate(STREAMS)]
        for row, system in enumerate(SYSTEMS):
            y = TOP + row * (3 * height + GAP)
            for index, devices in enumerate(DEVICES):
                for other, streams in enumerate(STREAMS):
                    result = result_of(devices, streams, snodes, *system)
                    parts += draw_cell(x + other * width, y + index * height, result)
    parts.append(text("soft", 12, 42, "streams", "start"))
    for row, (catalog, storage) in enumerate(SYSTEMS):
        y = TOP + row * (3 * height + GAP)
        parts += [text("ink", 12, y + 15, NAMES[catalog], "start"), text("ink", 12, y + 15 + height, NAMES[storage], "start")]
        parts += [text("soft", LEFT - 8, y + 15 + index * height, f"{devices:,}", "end") for index, devices in enumerate(DEVICES)]
    return document(BREAKS, TOP + len(SYSTEMS) * (3 * height + GAP), parts)


def draw_cell(x: float, y: float, result: Estimate) -> Iterator[str]:
    """Yield a cell with the part that breaks first, filled if it has too much to do."""
    width, height = CELL
    first = result.breaks_first
    kind = "card" if result.is_enough else COLORS[first]
    yield f'<rect class="{kind}" x="{x + 1:g}" y="{y + 1:g}" width="{width - 2}" height="{height - 2}" rx="3"/>'
    yield text("soft" if result.is_enough else "ink", x + width / 2, y + 15, WORDS[first])


def draw_checks() -> str:
    """Return the picture of the points: a mark right of the middle was predicted to take longer than it did."""
    points = json.loads(POINTS.read_text())
    bottom = 40 + POINT_HEIGHT * len(points)
    parts = [
        f'<rect class="green" x="{MIDDLE - SCALE / 4:g}" y="30" width="{SCALE / 2:g}" height="{bottom - 34:g}" rx="3"/>',
        line("line", f"M{MIDDLE} 30V{bottom - 4}"),
        *(text("soft", MIDDLE + SCALE * share, 22, f"{share:+.0%}") for share in (-0.25, 0.25)),
        text("soft", MIDDLE, 22, "predicted = measured"),
    ]
    for index, (name, predicted, measured) in enumerate(points):
        y = 46 + POINT_HEIGHT * index
        x = MIDDLE + SCALE * max(-0.4, min(0.4, predicted / measured - 1))
        parts += [text("ink", 12, y + 4, name, "start"), f'<circle class="orange" cx="{x:.1f}" cy="{y}" r="4"/>']
    return document(CHECKS, bottom + 8, parts)


def size_table() -> str:
    """Return the table of what to set for so much."""
    lines = [
        "| Devices at 1 Hz | Streams | Tables | Snodes | Memory of each | Catalog | Next to break |",
        "|---|---|---|---|---|---|---|",
    ]
    for devices, streams, tables in SIZES:
        workload, result = recommend(Workload(devices, 1.0, streams, tables=tables), measured_costs())
        first = f"{result.breaks_first.value}, {result.loads[result.breaks_first]:.0%}"
        cells = (f"{devices:,}", f"{streams:,}", tables, workload.snodes, format_bytes(driver_bytes(result)))
        lines.append("| " + " | ".join(map(str, (*cells, NAMES[workload.catalog], first))) + " |")
    return "\n".join(lines) + "\n"


def rules() -> str:
    """Return rules of thumb, which follow from the costs."""
    costs, plain = measured_costs(), Workload(1_000, 1.0, 1)
    disk, store = (Operations(replace(plain, storage=storage), costs) for storage in Storage)
    batch_s, commit_s = disk.batch(1_000).total_s + disk.statements_s, disk.batch(1_000, closes=True).total_s + disk.statements_s
    served = {kind: (4 if kind is CatalogKind.POSTGRESQL else 1) / costs.catalog[kind].server_s for kind in CatalogKind}
    few, many = (costs.airflow.start_s + costs.airflow.start_job_s * streams for streams in (10, 1_000))
    lines = (
        f"A driver handles {1 / batch_s:.0f} micro-batches of 1,000 rows a second, {1 / commit_s:.0f} with results. "
        f"Each row costs each stream {costs.batch[Kind.INTERVAL].row_s * 1e6:.2g} µs more.",
        f"A table takes {0.7 / disk.commit(1_000).total_s:.0f} commits of 1,000 rows a second, "
        f"on S3 {0.7 / store.commit(1_000).total_s:.0f}, with requests of 20 ms.",
        f"An snode takes {0.3 / costs.source.door_row_s:,.0f} rows a second from clients in a third of its time.",
        f"A million windows in state are {costs.driver.window_bytes * 1e6 / GIB:.1f} GiB.",
        f"The catalog serves {served[CatalogKind.SQLITE]:,.0f} micro-batches a second in SQLite, "
        f"{served[CatalogKind.POSTGRESQL]:,.0f} in PostgreSQL on four cores.",
        f"A driver starts in {costs.driver.start_s:.0f} s, and Spark when a job needs it.",
        f"Airflow starts a stream in {few:.0f} s beside ten others, in {many:.0f} s beside a thousand.",
    )
    return "".join(f"- {one}\n" for one in lines)


def with_generated(page: str) -> str:
    """Return the page with what is generated."""
    content = {"sizes": size_table(), "rules": rules()}
    return GENERATED.sub(lambda match: f"{match[1]}\n{content[match[2]]}\n{match[3]}", page)


def pictures() -> dict[str, str]:
    """Return the pictures by the name of their file."""
    return {"breaks.svg": draw_breaks(), "checks.svg": draw_checks()}


def main() -> None:
    """Write all pictures, and what is generated of the page."""
    PAGE.write_text(with_generated(PAGE.read_text()))
    FOLDER.mkdir(exist_ok=True)
    for name, content in pictures().items():
        (FOLDER / name).write_text(content)


if __name__ == "__main__":
    main()
