"""What tests run in processes of their own: statements, and an snode that does nothing but call triggers."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import headrace
from headrace.model.clock import SystemClock
from headrace.model.spark_options import Role
from headrace.runtime.context import open_context
from headrace.runtime.credentials import Identity
from headrace.runtime.http import Guard, Health, create_app
from headrace.runtime.http_server import Endpoint
from headrace.runtime.trigger_calls import trigger_runner
from headrace.service.endpoint import sql_runner
from headrace.settings import Settings, load

TOKEN: Final = "opens everything"


class LivingSnode:
    """An snode that does nothing but call triggers. It notes the devices of the rows with which it does."""

    def __init__(self, settings: Settings) -> None:
        self.context = open_context(settings, SystemClock(), Role.SNODE)
        self.calls: list[str] = []
        lease = self.context.catalog.leases.acquire("default", "test", 600_000)
        assert lease is not None
        run_trigger = trigger_runner(self.context)

        def run(body: dict[str, Any]) -> dict[str, Any]:
            self.calls.append(body.get("device", ""))
            return run_trigger(body)

        guard = Guard(TOKEN, "", lambda: Identity(lease.epoch, self.endpoint.address))
        app = create_app(guard, sql_runner(self.context), lambda: Health(True, {}), str, run)
        self.endpoint = Endpoint(app)
        self.endpoint.start()
        self.context.catalog.snodes.beat(replace(lease, address=self.endpoint.address), token=TOKEN)

    def close(self) -> None:
        self.endpoint.stop()
        self.context.catalog.close()


def serve(home: Path) -> None:
    """Be an snode until this process is killed."""
    LivingSnode(load(home=home))
    signal.pause()


def run(home: Path, *statements: str) -> None:
    """Run statements on a connection to a home."""
    with headrace.connect(home, dialect="iotdb") as connection:
        for statement in statements:
            connection.execute(statement)


def settle(home: Path) -> None:
    """Run the jobs of a home until there is nothing left to do."""
    with headrace.connect(home, dialect="iotdb") as connection:
        connection.settle()
