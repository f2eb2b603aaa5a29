"""Snodes: the last heartbeat of each."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, BigInteger, Column, Named, Table, TypedColumns

from headrace.catalog.rows.metadata import METADATA, NAME


class SnodeColumns(TypedColumns):
    """Columns of `snodes`."""

    snode: Named[str] = Column(NAME, primary_key=True)
    epoch: Named[int] = Column(BigInteger)
    address: Named[str | None]
    token: Named[str | None]
    at: Named[int] = Column(BigInteger)
    detail: Named[dict[str, Any]] = Column(JSON)


SNODES = Table("snodes", METADATA, SnodeColumns)
