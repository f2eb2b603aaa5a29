"""Run a soak, and print what the system survived. Fails if a stream or the target of a pipe differs from its query."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.soak.powercuts.disk import Disk, build
from tests.soak.run import Report, soak

FOLDER = "HEADRACE_SOAK_FOLDER"
PREFIX = "headrace-soak-"


def main() -> None:
    """Run the soak that the arguments describe."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="how long to write and break things (default: 20)")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000, help="seed of the random operations")
    arguments = parser.parse_args()
    if "LD_PRELOAD" not in os.environ:
        record_what_is_synced(arguments)
    say(f"seed {arguments.seed}")
    with kept_on_failure(os.environ.get(FOLDER)) as folder:
        report = soak(folder, arguments.seed, minutes=arguments.minutes, announce=say)
        print_report(report)
        if not report.is_equal:
            sys.exit(1)


def record_what_is_synced(arguments: argparse.Namespace) -> None:
    """Start over with the recorder preloaded, so that the power can be cut; go on without that if there is no C compiler."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    library = build(folder)
    if library is None:
        say("no power cuts: there is no C compiler")
        shutil.rmtree(folder)
        return
    disk = Disk(folder / "home", folder / "record")
    disk.begin()
    variables = {**os.environ, **disk.variables(), "LD_PRELOAD": str(library), FOLDER: str(folder)}
    command = ["-m", "tests.soak", "--minutes", str(arguments.minutes), "--seed", str(arguments.seed)]
    os.execve(sys.executable, [sys.executable, *command], variables)


@contextmanager
def kept_on_failure(made: str | None = None) -> Iterator[Path]:
    """Yield a folder, by default a new one. It is deleted, except after a failure, which needs its tables to be explained."""
    folder = Path(made or tempfile.mkdtemp(prefix=PREFIX))
    try:
        yield folder
    except BaseException:
        say(f"kept: {folder}")
        raise
    shutil.rmtree(folder)


def say(text: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def print_report(report: Report) -> None:
    """Print what happened, and what became of each stream and pipe."""
    for operation, count in sorted(report.operations.items()):
        say(f"{operation:16} {count:6}")
    say(f"{'rows written':16} {report.rows:6}")
    for name, outcome in (*report.streams.items(), *report.pipes.items()):
        say(f"{name:16} {outcome}")


if __name__ == "__main__":
    main()
