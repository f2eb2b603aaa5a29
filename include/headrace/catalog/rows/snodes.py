"""Snodes: the last heartbeat of each."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, BigInteger, Column, Named, RowMapping, Table, TypedColumns

from headrace.catalog.rows.metadata import METADATA, NAME
from headrace.model.snodes import Heartbeat


class SnodeColumns(TypedColumns):
    name: Named[str] = Column(NAME, primary_key=True)
    epoch: Named[int] = Column(BigInteger)
    address: Named[str | None]
    token: Named[str | None]
    heartbeat: Named[int] = Column(BigInteger)
    detail: Named[dict[str, Any]] = Column(JSON)


SNODES = Table("snodes", METADATA, SnodeColumns)


def to_row(beat: Heartbeat) -> dict[str, Any]:
    return {
        "name": beat.snode,
        "epoch": beat.epoch,
        "address": beat.address,
        "token": beat.token,
        "heartbeat": beat.at,
        "detail": dict(beat.detail),
    }


def from_row(row: RowMapping) -> Heartbeat:
    return Heartbeat(row["name"], row["epoch"], row["heartbeat"], row["address"], row["token"], row["detail"])
