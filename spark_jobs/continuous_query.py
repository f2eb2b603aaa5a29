"""Executes a continuous query at instants of its schedule. Run by spark-submit."""

from __future__ import annotations

import argparse
import sys

from headrace.runtime.entry_points import execute_query
from headrace.runtime.query_runs import parse_ahead, parse_instant, parsed_work


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of the command's arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--query", dest="job_id", required=True, help="id of the continuous query")
    parser.add_argument("--holder", required=True, help="name of this process in the ledger")
    parser.add_argument(
        "--at", dest="instant", type=parse_instant, help="instant to execute; default: all whose ranges overlap --from and --to"
    )
    parser.add_argument("--from", dest="start", type=parse_instant, help="start of the range; default: the first execution")
    parser.add_argument("--to", dest="end", type=parse_instant, help="end of the range, exclusive; default: now")
    parser.add_argument("--again", action="store_true", help="execute the instant even if it was done")
    parser.add_argument("--catch-up", action="store_true", help="execute also what is due before and after the instant")
    parser.add_argument("--ahead", type=parse_ahead, action="append", default=[], help="INSTANT=HOLDER of a run that waits")
    parser.add_argument("--stop", action="store_true", help="mark the query STOPPED if an execution fails")
    return parser


if __name__ == "__main__":
    sys.exit(execute_query(parsed_work(**vars(build_parser().parse_args()))))
