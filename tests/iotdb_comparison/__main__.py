"""Command line of the comparison: `python -m tests.iotdb_comparison --server 127.0.0.1:6667 --queries 500 --calls 500`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.progress import track

from tests.iotdb_comparison.campaign import CALLS, KINDS, QUERIES, Comparison, Kind, Report, play
from tests.iotdb_comparison.clients import HeadraceSide, IotdbSide
from tests.support.interpreted import interpret_plans, shorten_sessions

CASES_PER_TREE = 125


def main() -> int:
    """Compare, print the differences, and return 1 if one is unexplained."""
    parser = argparse.ArgumentParser(prog="iotdb_comparison", description="Compare random statements with an IoTDB server.")
    parser.add_argument("--server", default="127.0.0.1:6667", help="host:port of the IoTDB server")
    parser.add_argument("--queries", type=int, default=500, help="number of cases; most are one query")
    parser.add_argument("--calls", type=int, default=500, help="number of cases with calls of registered functions")
    parser.add_argument("--seed", type=int, default=1, help=f"first seed; each seed has a tree and {CASES_PER_TREE} cases")
    parser.add_argument(
        "--only", metavar="SEED/CASE", nargs="*", help="play these cases only, such as 1/17 or f1/17, and print their statements"
    )
    parser.add_argument("--explained", action="store_true", help="print explained differences, too")
    options = parser.parse_args()
    host, _, port = options.server.partition(":")
    report = Report()
    shorten_sessions()
    interpret_plans()
    with tempfile.TemporaryDirectory() as home:
        ours, theirs = HeadraceSide(Path(home)), IotdbSide(host, int(port or 6667))
        try:
            for kind, seed, numbers in plan(options):
                results = play(seed, numbers, ours, theirs, kind)
                description = f"seed {kind.prefix}{seed}"
                for result in track(results, description, len(numbers), disable=not sys.stderr.isatty(), transient=True):
                    report.add(result, print)
                    show(result, options, print)
        finally:
            theirs.close()
            ours.close()
    sys.stdout.write(f"{report}\n")
    return 1 if report.unexplained else 0


Plan = list[tuple[Kind, int, list[int]]]
"""Seeds with the numbers of their cases, by kind."""


def plan(options: argparse.Namespace) -> Plan:
    """Return what to play."""
    if options.only:
        numbers: dict[tuple[str, int], list[int]] = {}
        for id_ in options.only:
            seed, _, number = id_.partition("/")
            prefix = seed.rstrip("0123456789")
            numbers.setdefault((prefix, int(seed.removeprefix(prefix))), []).append(int(number))
        return [(next(kind for kind in KINDS if kind.prefix == prefix), seed, cases) for (prefix, seed), cases in numbers.items()]
    return [*seeds(QUERIES, options.seed, options.queries), *seeds(CALLS, options.seed, options.calls)]


def seeds(kind: Kind, first: int, count: int) -> Plan:
    """Return a number of cases of a kind."""
    full, rest = divmod(count, CASES_PER_TREE)
    sizes = [CASES_PER_TREE] * full + [rest] * (rest > 0)
    return [(kind, first + at, list(range(size))) for at, size in enumerate(sizes)]


def show(result: Comparison, options: argparse.Namespace, tell: Callable[[str], None]) -> None:
    """Print a comparison if the options ask for it; an unexplained difference is printed anyway."""
    if result.reason is not None and (options.explained or options.only):
        tell(f"{result.id}  {result.statement}\n        explained: {result.reason}\n        {result.difference}\n")
    elif result.difference is None and options.only:
        tell(f"{result.id}  {result.statement}\n        equal\n")


if __name__ == "__main__":
    sys.exit(main())
