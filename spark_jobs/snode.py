"""Runs an snode, the resident application that hosts streams and answers SQL. Run by spark-submit or Python."""

from __future__ import annotations

import argparse
import sys

from headrace.doors import create_service
from headrace.runtime.entry_points import snode


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of the command's arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--snode", help="name of the snode; default: the setting HEADRACE_SNODE")
    parser.add_argument("--no-fill", action="store_true", help="do not backfill histories; Airflow does")
    parser.add_argument("--wait", type=float, help="seconds to wait while another driver holds the lease; default: no limit")
    return parser


if __name__ == "__main__":
    args = build_parser().parse_args()
    sys.exit(snode(args.snode, create_service, fill_histories=not args.no_fill, wait_s=args.wait))
