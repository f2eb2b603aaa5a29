"""An snode without Spark and streams, which Airflow starts instead of spark-submit: it only holds its lease and is supervised."""

from __future__ import annotations

import argparse
import signal
import threading

from headrace.catalog import Catalog
from headrace.runtime.context import open_context
from headrace.runtime.lease import LeaseKeeper, acquire, holder_name
from headrace.runtime.reconciliation import INTERVAL_S, Reconciler
from headrace.runtime.regular_work import RegularWork
from headrace.settings import current


def main() -> None:
    """Run until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--snode", required=True)
    snode = parser.parse_known_args()[0].snode
    settings, ended = current(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with Catalog.open(settings.catalog) as catalog:
        lease = acquire(catalog, snode, holder_name(), settings.lease_ms, stopped=ended)
        if lease is None:
            return
        keeper = LeaseKeeper(catalog, lease, settings.lease_ms)
        keeper.start()
        reconciliation = RegularWork("reconciliation", INTERVAL_S, Reconciler(open_context(settings), snode).reconcile)
        reconciliation.start()
        while not ended.wait(settings.heartbeat_ms / 1000):
            keeper.report_alive()
            catalog.snodes.beat(keeper.lease, detail={"streams": {"RUNNING": 1}})
        reconciliation.stop()
        keeper.release()


if __name__ == "__main__":
    main()
