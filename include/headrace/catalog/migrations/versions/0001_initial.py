"""Where migrations begin: the tables of the first release, which a new catalog gets as they are declared."""

from __future__ import annotations

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Change nothing."""
