"""Compacts small files of the tables and removes files that are no longer needed. Run by spark-submit or Python."""

from __future__ import annotations

import argparse
import sys

from headrace.runtime.entry_points import maintain


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of the command's arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", help="only the tables of this database")
    parser.add_argument(
        "--retention-hours", type=int, help="keep versions of this many hours; default: HEADRACE_MAINTENANCE_KEEP_HOURS"
    )
    return parser


if __name__ == "__main__":
    args = build_parser().parse_args()
    sys.exit(maintain(args.database, args.retention_hours))
