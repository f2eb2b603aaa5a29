"""Snodes: the last heartbeat of each."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, BigInteger, Column, Named, RowMapping, Table, TypedColumns

from headrace.catalog.rows.metadata import METADATA, NAME
from headrace.model.snodes import Heartbeat


class SnodeColumns(TypedColumns):
    """Columns of `snodes`."""

    name: Named[str] = Column(NAME, primary_key=True)
    epoch: Named[int] = Column(BigInteger)
    address: Named[str | None]
    token: Named[str | None]
    heartbeat: Named[int] = Column(BigInteger)
    detail: Named[dict[str, Any]] = Column(JSON)


SNODES = Table("snodes", METADATA, SnodeColumns)


def to_row(heartbeat: Heartbeat) -> dict[str, Any]:
    """Convert a heartbeat to its catalog row."""
    return {
        "name": heartbeat.snode,
        "epoch": heartbeat.epoch,
        "address": heartbeat.address,
        "token": heartbeat.token,
        "heartbeat": heartbeat.at,
        "detail": dict(heartbeat.detail),
    }


def from_row(row: RowMapping) -> Heartbeat:
    """Convert a catalog row to a heartbeat."""
    return Heartbeat(row["name"], row["epoch"], row["heartbeat"], row["address"], row["token"], row["detail"])
