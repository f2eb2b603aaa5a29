"""`python -m benchmarks.capacity`: measure the costs of this machine, and print them as `costs.toml` has them."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.bench import Bench, Sizes
from benchmarks.capacity.run import calibrated
from headrace.cli.sizing.costs import Costs
from headrace.runtime.garbage import collect_rarely


def format_costs(costs: Costs) -> Iterator[str]:
    """Yield the lines of a file with costs."""
    values = asdict(costs)
    yield f'machine = "{values.pop("machine")}"'
    for name, section in values.items():
        nested = {key: value for key, value in section.items() if isinstance(value, Mapping)}
        for path, content in ({f"{name}.{key}": value for key, value in nested.items()} or {name: section}).items():
            yield from ("", f"[{path}]", *(f"{key} = {format_number(value)}" for key, value in content.items()))


def format_number(value: Any) -> str:
    """Format a cost with three digits."""
    return f"{float(f'{value:.3g}')!r}"


def main() -> None:
    """Measure and print."""
    console = Console(stderr=True, style="dim", highlight=False)
    home = Path(tempfile.mkdtemp(prefix="headrace-capacity-"))
    collect_rarely()
    bench = Bench(home, Sizes(), console.print)
    try:
        with calibrated(bench) as calibration:
            sys.stdout.writelines(f"{line}\n" for line in format_costs(calibration.costs))
    finally:
        bench.close()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
