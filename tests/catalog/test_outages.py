"""PostgreSQL servers that hang, or have become read-only, are errors that pass."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import sql

from headrace.catalog import Catalog, postgresql
from headrace.errors import TransientError
from headrace.model.tables import Database
from tests.support.postgres import DISCONNECT, Server
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(120)]


def take_lock(catalog: Catalog) -> None:
    with catalog.lock("something"):
        pass


def test_no_call_waits_without_end_for_a_server_that_hangs(
    postgres: Server, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Catalog.open(f"{postgres_url}&connect_timeout=2") as catalog:
        monkeypatch.setattr(postgresql, "STATEMENT_SECONDS", 0.5)
        monkeypatch.setattr(postgresql, "SILENCE_SECONDS", 0)
        with postgres.frozen():
            for call in (catalog.now, lambda: catalog.databases.create(Database("power")), lambda: take_lock(catalog)):
                with pytest.raises(TransientError, match=r"the catalog at .* cannot be used"):
                    call()
        monkeypatch.undo()
        wait_until(lambda: answers(catalog), "the server to answer")
        assert catalog.databases.create(Database("power"))
        take_lock(catalog)


def answers(catalog: Catalog) -> bool:
    try:
        return catalog.now() > 0
    except TransientError:
        return False


def test_while_a_server_does_not_answer_only_one_call_waits_for_it(
    postgres: Server, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = []
    connect = postgresql.BoundedConnection.connect

    def count(*arguments: Any, **parameters: Any) -> postgresql.BoundedConnection:
        attempts.append(arguments)
        return connect(*arguments, **parameters)

    with Catalog.open(f"{postgres_url}&connect_timeout=2") as catalog:
        monkeypatch.setattr(postgresql, "STATEMENT_SECONDS", 0.5)
        monkeypatch.setattr(postgresql, "SILENCE_SECONDS", 600)
        monkeypatch.setattr(postgresql.BoundedConnection, "connect", count)
        with postgres.frozen():
            for _ in range(20):
                with pytest.raises(TransientError):
                    catalog.now()
    assert len(attempts) == 1


def test_a_read_only_server_is_left_for_one_that_is_not(postgres_url: str) -> None:
    with Catalog.open(postgres_url) as catalog, psycopg.connect(postgres_url, autocommit=True) as server:
        database = sql.Identifier(server.info.dbname)
        server.execute(sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(database))
        server.execute(DISCONNECT)
        assert catalog.now() > 0
        with pytest.raises(TransientError, match="its server is read-only"):
            catalog.databases.create(Database("power"))
        server.execute(sql.SQL("ALTER DATABASE {} RESET default_transaction_read_only").format(database))
        assert catalog.databases.create(Database("power"))
