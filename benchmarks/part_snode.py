"""The driver of an snode in a process of its own, without Spark and doors, until its standard input ends."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.measure import MAX_WAIT_SECONDS
from headrace.model.snodes import MAX_LEASE_MS
from headrace.runtime.context import open_context
from headrace.runtime.driver import Driver
from headrace.runtime.garbage import collect_rarely
from headrace.runtime.lease import holder_name
from headrace.runtime.metrics import Histogram
from headrace.settings import load

READY: Final = "ready"
NEVER_WIDE: Final = 1 << 40
ONE_COMMIT: Final = 1
"""Rows of a micro-batch, so that each commit is one, however small."""


def main() -> None:
    """Run the jobs of an snode."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--snode", required=True)
    arguments = parser.parse_args()
    settings = load(
        home=arguments.home, snode=arguments.snode, kernels="always", batch_rows=ONE_COMMIT, wide_commit_rows=NEVER_WIDE
    )
    context = open_context(settings)
    lease = context.catalog.leases.acquire(arguments.snode, holder_name(), MAX_LEASE_MS)
    assert lease is not None, "the snode has a driver"
    driver = Driver(replace(context, epoch=lease.epoch), arguments.snode, fills=False, batches=Histogram(), ended=lambda: None)
    collect_rarely()  # as an snode does
    driver.start()
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    sys.stdin.read()
    driver.stop(MAX_WAIT_SECONDS)
    context.catalog.leases.release(lease)


if __name__ == "__main__":
    main()
