"""Events: what happened, newest last."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, Named, Table, Text, TypedColumns

from headrace.catalog.rows.metadata import METADATA


class EventColumns(TypedColumns):
    """Columns of `events`."""

    # SQLite only numbers rows automatically if the key is an INTEGER, which has 64 bits there.
    id: Named[int] = Column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True)
    time: Named[int] = Column(BigInteger)
    subject_kind: Named[str]
    subject: Named[str]
    kind: Named[str]
    message: Named[str] = Column(Text)


EVENTS = Table("events", METADATA, EventColumns, Index(None, "subject_kind", "subject"))
