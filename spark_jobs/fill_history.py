"""For spark-submit: computes chunks of a stream's history, or of a range that is computed again."""

from __future__ import annotations

import argparse
import sys

from headrace.runtime.jobs import fill_history


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stream", required=True, help="id of the stream")
    parser.add_argument("--run", default="history", help="run in the ledger; default: the stream's history")
    parser.add_argument("--chunk", type=int, help="number of the one chunk to compute; default: all that are not done")
    return parser


if __name__ == "__main__":
    given = arguments().parse_args()
    sys.exit(fill_history(given.stream, given.run, given.chunk))
