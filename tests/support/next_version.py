"""A later version of Headrace, whose catalog has one migration more."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from headrace.catalog import migrate

NEXT: Final = f"{int(migrate.HEAD) + 1:04}"
NEXT_MIGRATION: Final = f"""
import sqlalchemy as sa
from alembic import op

revision = "{NEXT}"
down_revision = "{migrate.HEAD}"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("note", sa.String()))
"""


def release_next_version(folder: Path, monkeypatch: pytest.MonkeyPatch, *, oldest: str = migrate.OLDEST) -> None:
    """Act as a version of Headrace whose catalog has one migration more, and admits programs from version `oldest` on."""
    shutil.copytree(migrate.MIGRATIONS, folder)
    (folder / "versions" / f"{NEXT}_next.py").write_text(NEXT_MIGRATION)
    monkeypatch.setattr(migrate, "MIGRATIONS", folder)
    monkeypatch.setattr(migrate, "HEAD", NEXT)
    monkeypatch.setattr(migrate, "OLDEST", oldest)
