"""For spark-submit, or plain Python: makes many small files few, and removes those that nobody needs any more."""

from __future__ import annotations

import argparse
import sys

from headrace.runtime.jobs import maintain


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", help="only the tables of this database")
    parser.add_argument("--retention-hours", type=int, default=168, help="keep files that were in use then; default: %(default)s")
    return parser


if __name__ == "__main__":
    given = arguments().parse_args()
    sys.exit(maintain(given.database, given.retention_hours))
