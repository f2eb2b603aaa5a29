"""`headrace size`: what to start for a number of devices and streams, and what breaks first."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.output import show_lines, show_table
from headrace.cli.sizing.advice import REMEDIES, details, settings_for
from headrace.cli.sizing.costs import CatalogKind, Costs, Kind, costs_from, measured_costs
from headrace.cli.sizing.estimate import Estimate, estimate, recommend
from headrace.cli.sizing.workload import GIB, Operations, Storage, Trigger, Workload


def size(
    devices: Annotated[int, typer.Option(min=1, help="Devices, or subtables.")],
    streams: Annotated[int, typer.Option(min=1, help="Streams, spread over the tables.")],
    rate: Annotated[float, typer.Option(min=1e-6, help="Rows a second of each device.")] = 1.0,
    kind: Annotated[Kind, typer.Option(help="Windows of the streams.")] = Kind.INTERVAL,
    trigger: Annotated[Trigger, typer.Option(help="When results are written.")] = Trigger.WINDOW_CLOSE,
    window: Annotated[float, typer.Option(min=1.0, help="Seconds of a window.")] = 60.0,
    tables: Annotated[int, typer.Option(min=1, help="Tables over which devices are spread.")] = 1,
    commits: Annotated[float, typer.Option(min=0.001, help="Commits a second on each table.")] = 10.0,
    delay: Annotated[float, typer.Option(min=0.1, help="Seconds after which results should be there.")] = 5.0,
    snodes: Annotated[int | None, typer.Option(min=1, help="Snodes. Default: as many as are needed.")] = None,
    catalog: Annotated[CatalogKind, typer.Option(help="Database of the catalog of one snode.")] = CatalogKind.SQLITE,
    storage: Annotated[Storage, typer.Option(help="Where tables are.")] = Storage.DISK,
    request_ms: Annotated[float, typer.Option(min=0.0, help="Milliseconds of a request to the object store.")] = 20.0,
    memory: Annotated[float, typer.Option(min=1.0, help="GiB that the Python process of a driver may have.")] = 16.0,
    costs: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Costs of your machine, as `benchmarks.capacity` prints them.")
    ] = None,
) -> None:
    """Say what to start for devices and streams, and what breaks first. Ends with 1 if a part has too much to do."""
    measured = measured_costs() if costs is None else costs_from(tomllib.loads(costs.read_text()))
    workload = Workload(
        devices,
        rate,
        streams,
        kind,
        trigger,
        window_s=window,
        tables=tables,
        commits=commits,
        snodes=snodes or 1,
        catalog=catalog,
        storage=storage,
        request_s=request_ms / 1000,
        delay_s=delay,
        memory=memory * GIB,
    )
    if snodes is None:
        workload, result = recommend(workload, measured)
    else:
        result = estimate(workload, measured)
    show(workload, result, measured)
    raise typer.Exit(0 if result.is_enough else 1)


def show(workload: Workload, result: Estimate, costs: Costs) -> None:
    """Print what to set, and the load of each part, the highest first."""
    show_table(("setting", "value", "why"), list(settings_for(workload, result, Operations(workload, costs))))
    texts = details(result, workload)
    parts = sorted(result.loads, key=lambda part: -result.loads[part])
    show_lines([""])
    show_table(("part", "load", "of"), [(part.value, f"{result.loads[part]:.0%}", texts[part]) for part in parts])
    first = result.breaks_first
    verb = "has too much to do" if result.loads[first] > 1 else "breaks first"
    show_lines(["", f"{first.value} {verb}: {REMEDIES[first]}", f"costs: {costs.machine}"])
