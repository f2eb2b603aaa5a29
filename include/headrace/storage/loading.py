"""Loading files: CSV, Parquet and newline-delimited JSON."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How files are read.

    `format` is csv, parquet or ndjson (None: by the files' names); `tbname` the subtable of all rows (None: a column `tbname` names
    it); `delimiter` that of CSV.
    """

    format: str | None = None
    tbname: str | None = None
    delimiter: str = ","


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load did: the table's version after it, rows by what became of them, bytes read."""

    version: int
    inserted: int
    updated: int
    bytes: int
