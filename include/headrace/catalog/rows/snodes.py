"""Snodes: the last heartbeat of each, leases, and those that share the jobs.

A released lease keeps its row, as the epoch must keep increasing.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, BigInteger, Column, Integer, Named, RowMapping, Table, TypedColumns, UniqueConstraint

from headrace.catalog.rows.metadata import METADATA, NAME
from headrace.model.snodes import Lease


class _SnodeColumns(TypedColumns):
    snode: Named[str] = Column(NAME, primary_key=True)
    epoch: Named[int] = Column(BigInteger)
    address: Named[str | None]
    token: Named[str | None]
    at: Named[int] = Column(BigInteger)
    detail: Named[dict[str, Any]] = Column(JSON)


SNODES = Table("snodes", METADATA, _SnodeColumns)


class _LeaseColumns(TypedColumns):
    snode: Named[str] = Column(NAME, primary_key=True)
    holder: Named[str | None]
    epoch: Named[int] = Column(BigInteger)
    expires: Named[int] = Column(BigInteger)
    address: Named[str | None]


LEASES = Table("leases", METADATA, _LeaseColumns)


def lease_from_row(row: RowMapping) -> Lease | None:
    """Return the lease, or None if it was released."""
    return None if row["holder"] is None else Lease(row["snode"], row["holder"], row["epoch"], row["expires"], row["address"])


class _MemberColumns(TypedColumns):
    name: Named[str] = Column(NAME, primary_key=True)
    dnode: Named[int] = Column(Integer)
    created: Named[int] = Column(BigInteger)


MEMBERS = Table("members", METADATA, _MemberColumns, UniqueConstraint("dnode"))
