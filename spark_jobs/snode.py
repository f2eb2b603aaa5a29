"""For spark-submit, or plain Python: an snode, the resident application that computes streams."""

from __future__ import annotations

import argparse
import sys

from headrace.runtime.jobs import snode
from headrace.service.endpoint import sql_runner


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--snode", help="name of the snode; default: the setting HEADRACE_SNODE")
    parser.add_argument("--no-fill", action="store_true", help="leave the history of streams to others (Airflow)")
    parser.add_argument("--wait", type=float, help="seconds to wait while another driver holds the lease; default: no limit")
    return parser


if __name__ == "__main__":
    given = arguments().parse_args()
    sys.exit(snode(given.snode, sql_runner, fill_histories=not given.no_fill, wait_s=given.wait))
