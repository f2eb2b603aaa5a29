"""Computes chunks of a stream's history or of a range to recompute. Run by spark-submit."""

from __future__ import annotations

import argparse
import sys

from headrace.runtime.entry_points import fill_history


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of the command's arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stream", required=True, help="id of the stream")
    parser.add_argument("--run", default="history", help="run in the ledger; default: the stream's history")
    parser.add_argument("--chunk", type=int, help="number of the chunk to compute; default: all chunks that are not done")
    return parser


if __name__ == "__main__":
    args = build_parser().parse_args()
    sys.exit(fill_history(args.stream, args.run, args.chunk))
