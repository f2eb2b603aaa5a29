"""Transfers a chunk of a pipe's history, or of a range to transfer again. Run by spark-submit."""

from __future__ import annotations

import argparse
import sys

from headrace.runtime.entry_points import transfer_chunk


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of the command's arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pipe", required=True, help="id of the pipe")
    parser.add_argument("--run", default="history", help="run in the ledger; default: the pipe's history")
    parser.add_argument("--chunk", type=int, required=True, help="number of the chunk to transfer")
    return parser


if __name__ == "__main__":
    args = build_parser().parse_args()
    sys.exit(transfer_chunk(args.pipe, args.run, args.chunk))
