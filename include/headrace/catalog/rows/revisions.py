"""Revisions: numbers that change whenever objects of a kind do, so that processes notice without reading all of them."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Named, String, Table, TypedColumns

from headrace.catalog.rows.metadata import METADATA


class RevisionColumns(TypedColumns):
    """Columns of `revisions`: one row for each kind of objects, once there was one."""

    kind: Named[str] = Column(String, primary_key=True)
    value: Named[int] = Column(BigInteger)


REVISIONS = Table("revisions", METADATA, RevisionColumns)
