"""Snodes that share the jobs of the catalog."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, Named, Table, TypedColumns, UniqueConstraint

from headrace.catalog.rows.metadata import METADATA, NAME


class MemberColumns(TypedColumns):
    """Columns of `members`."""

    name: Named[str] = Column(NAME, primary_key=True)
    dnode: Named[int] = Column(Integer)
    created: Named[int] = Column(BigInteger)


MEMBERS = Table("members", METADATA, MemberColumns, UniqueConstraint("dnode"))
