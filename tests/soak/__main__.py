"""Run a soak, and print what the system survived. Fails if a stream differs from its query."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.soak.run import Report, soak


def main() -> int:
    """Run the soak that the arguments describe; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="how long to write and break things (default: 20)")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000, help="seed of the random operations")
    arguments = parser.parse_args()
    say(f"seed {arguments.seed}")
    with tempfile.TemporaryDirectory(prefix="headrace-soak-") as folder:
        report = soak(Path(folder), arguments.seed, minutes=arguments.minutes, announce=say)
    print_report(report)
    return 0 if report.is_equal else 1


def say(text: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def print_report(report: Report) -> None:
    """Print what happened, and what became of each stream."""
    for operation, count in sorted(report.operations.items()):
        say(f"{operation:16} {count:6}")
    say(f"{'rows written':16} {report.rows:6}")
    for stream, outcome in report.streams.items():
        say(f"{stream:16} {outcome}")


if __name__ == "__main__":
    sys.exit(main())
