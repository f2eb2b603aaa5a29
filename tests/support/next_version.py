"""A later version of Headrace, whose catalog has one migration more."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headrace.catalog import migrate

NEXT_MIGRATION = """
import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("note", sa.String()))
"""


def release_next_version(folder: Path, monkeypatch: pytest.MonkeyPatch, *, oldest: str = migrate.OLDEST) -> None:
    """Act as a version of Headrace whose catalog has one migration more, and admits programs from version `oldest` on."""
    shutil.copytree(migrate.MIGRATIONS, folder)
    (folder / "versions" / "0002_next.py").write_text(NEXT_MIGRATION)
    monkeypatch.setattr(migrate, "MIGRATIONS", folder)
    monkeypatch.setattr(migrate, "HEAD", "0002")
    monkeypatch.setattr(migrate, "OLDEST", oldest)
