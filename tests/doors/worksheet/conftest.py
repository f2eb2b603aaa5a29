"""A home whose worksheet an snode serves, on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fastapi.testclient import TestClient

import headrace
from headrace.settings import Settings, load
from headrace.web.app import create_app
from tests.airflow.web_page import ACTION, Rights
from tests.support.living_snode import living_snode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = 1_790_000_000_000
MINUTES = 150
SHOWN_ROWS = 120
HEADERS = {**ACTION, "Sec-Fetch-Site": "same-origin"}
"""Those that a browser sends with a change of the page."""
TABLES = (
    "create database power",
    "create stable power.meters (ts timestamp, current float, voltage int, big bigint, note varchar(20)) tags (place varchar(20))",
    "create table power.d1001 using power.meters tags ('kitchen') power.d1002 using power.meters tags ('cellar')",
    "create database other",
    "create table other.hidden (ts timestamp, secret_column int)",
)


@dataclass(frozen=True)
class WorksheetHome:
    """A home, and its administrator."""

    settings: Settings
    root: headrace.Connection

    @contextmanager
    def page(self, rights: Rights | None = None) -> Iterator[TestClient]:
        """Serve the page to an Airflow user."""
        with TestClient(create_app(rights or Rights(), self.settings), raise_server_exceptions=False, headers=HEADERS) as client:
            yield client

    def audited(self) -> list[Any]:
        """Return who did what, from where, and whether it was allowed, the newest first."""
        entries = self.root.session.context.catalog.audit_log.entries()
        return [(one.user, one.address, one.statement, one.is_allowed) for one in entries]


@contextmanager
def opened(folder: Path, spark: SparkSession) -> Iterator[WorksheetHome]:
    """Open a home with rows, and an snode that is alive."""
    settings = load(home=folder, worksheet_rows=SHOWN_ROWS, local_rows=0)  # queries that can be seen to run
    with ExitStack() as stack:
        root = stack.enter_context(headrace.connect(settings=settings))
        for sql in TABLES:
            root.execute(sql)
        for device in (0, 1):
            rows = " ".join(f"({START + n * 60_000}, {n % 9}, {220 + device}, {2**53 + n}, 'n{n}')" for n in range(MINUTES))
            root.execute(f"insert into power.d100{device + 1} values {rows}")
        with headrace.connect(settings=settings, dialect="iotdb") as tree:
            tree.execute(f"insert into root.plant.line1(time, speed, temperature) values ({START}, 1.5, 20)")
            tree.execute(f"insert into root.plant.line2(time, speed) values ({START}, 2.5)")
        stack.enter_context(living_snode(replace(root.session.context, spark=lambda: spark)))
        yield WorksheetHome(settings, root)


@pytest.fixture(scope="package")
def free(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[WorksheetHome]:
    """Provide a home whose catalog has no users."""
    with opened(tmp_path_factory.mktemp("free") / "home", spark) as home:
        yield home


@pytest.fixture(scope="package")
def guarded(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[WorksheetHome]:
    """Provide a home where `vera` may read one table, and some series."""
    with opened(tmp_path_factory.mktemp("guarded") / "home", spark) as home:
        home.root.execute("create user vera pass 'Correct-horse-1'")
        home.root.execute("grant read on power.meters to vera")
        with headrace.connect(settings=home.settings, dialect="iotdb") as tree:
            tree.execute("grant read on root.plant.line1.** to user vera")
        yield home
