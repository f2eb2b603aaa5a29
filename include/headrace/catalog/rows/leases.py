"""Leases: who may run an snode. A released lease keeps its row, as the epoch must keep increasing."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Named, RowMapping, Table, TypedColumns

from headrace.catalog.rows.metadata import METADATA, NAME
from headrace.model.snodes import Lease


class LeaseColumns(TypedColumns):
    """Columns of `leases`."""

    snode: Named[str] = Column(NAME, primary_key=True)
    holder: Named[str | None]
    epoch: Named[int] = Column(BigInteger)
    expires: Named[int] = Column(BigInteger)
    address: Named[str | None]


LEASES = Table("leases", METADATA, LeaseColumns)


def from_row(row: RowMapping) -> Lease | None:
    """Return the lease, or None if it was released."""
    return None if row["holder"] is None else Lease(row["snode"], row["holder"], row["epoch"], row["expires"], row["address"])
