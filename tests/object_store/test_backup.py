"""Backups of tables on an object store, into an object store and onto a disk."""

from __future__ import annotations

from pathlib import Path

import headrace
from headrace.runtime.backup import back_up, restore
from headrace.settings import Settings, load
from tests.support.object_store import Server


def test_a_backup_goes_to_a_bucket_and_back(settings: Settings, object_store: Server, tmp_path: Path) -> None:
    with headrace.connect(settings=settings) as connection:
        connection.execute("CREATE DATABASE plant")
        connection.execute("CREATE TABLE plant.pump (ts TIMESTAMP, flow DOUBLE)")
        connection.execute("INSERT INTO plant.pump VALUES ('2026-01-01 00:00:00', 1.5)")
        folder = f"{object_store.create_bucket()}/backups/plant"
        first = back_up(connection.session.context, folder)
        assert back_up(connection.session.context, folder).files == first.files
    onto_disk = load(home=tmp_path / "restored", warehouse=str(tmp_path / "tables"))
    with headrace.connect(settings=onto_disk) as restored:
        assert restore(restored.session.context, folder).bytes == first.bytes
        assert len(list((tmp_path / "tables").rglob("*.parquet"))) == 1
        assert restored.session.context.tables.version(restored.session.context.catalog.tables.get("plant", "pump")) == 1
