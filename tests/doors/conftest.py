"""A home with the door `tdengine` open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.context import Context
from headrace.doors import with_group_commit
from headrace.doors.gate import Gate
from headrace.doors.tdengine.door import TDengineDoor, create_tdengine_door
from headrace.queries.running import RunningQueries
from headrace.runtime.context import open_context
from headrace.service.authentication import authenticator
from headrace.settings import load
from tests.support.interpreted import interpret_plans

interpret_plans()

PASSWORD = "correct-horse"


@dataclass(frozen=True)
class Served:
    """An open door, and a client of its administrator."""

    context: Context
    gate: Gate
    door: TDengineDoor
    http: httpx.Client

    def sql(self, statement: str, database: str = "", **parameters: str) -> Any:
        """Return the answer to a statement."""
        path = f"/rest/sql/{database}" if database else "/rest/sql"
        return self.http.post(path, content=statement, params=parameters).json()


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve a home to which no test does harm: each uses databases of its own."""
    yield from serve(tmp_path_factory.mktemp("served"))


def serve(home: Path) -> Iterator[Served]:
    """Open the door of an empty home."""
    settings = load(home=home, doors="tdengine", tdengine_port=0, http_token=PASSWORD)
    context = with_group_commit(open_context(settings))
    gate = Gate(context, authenticator(context), RunningQueries(context))
    door = create_tdengine_door(gate)
    assert door is not None
    door.start()
    with httpx.Client(base_url=f"http://{door.address}", auth=("root", PASSWORD), trust_env=False, timeout=600) as http:
        yield Served(context, gate, door, http)
    door.stop()
    context.tables.close()
    context.catalog.close()
