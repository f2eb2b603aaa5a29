"""Rows that a program holds (Arrow, pandas, polars, dictionaries) as a file for the loader."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.errors import DataError, InterfaceError

if TYPE_CHECKING:
    import pandas as pd

FILE_NAME: Final = "data"
"""Messages name the file of an invalid value: `data, row 3: …`."""


@contextmanager
def parquet_file(data: object) -> Iterator[Path]:
    """Write rows as a Parquet file, which is removed afterwards.

    Raises:
        InterfaceError: it is nothing that holds rows.
        DataError: a column has values of several kinds.
    """
    reader = batches_of(data)
    with tempfile.TemporaryDirectory(prefix="headrace-append-") as folder:
        path = Path(folder) / FILE_NAME
        with pq.ParquetWriter(path, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
        yield path


def batches_of(data: object) -> pa.RecordBatchReader:
    """Read rows as Arrow, batch by batch."""
    module = type(data).__module__.partition(".")[0]
    if isinstance(data, pa.RecordBatchReader):
        return data
    if module == "pandas":
        return of_pandas(data).to_reader()
    if module == "polars" and hasattr(data, "to_arrow"):
        return of_polars(data).to_reader()
    if isinstance(data, Sequence) and all(isinstance(row, Mapping) for row in data):
        return of_dictionaries(data).to_reader()
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data]).to_reader()
    raise InterfaceError(
        f"{type(data).__name__} holds no rows",
        hint="pass an Arrow table, a DataFrame of pandas or polars, or a list of dictionaries",
    )


def of_pandas(data: Any) -> pa.Table:
    """A DataFrame's columns, and its index if that has a name. NaN and NaT are NULL."""
    frame: pd.DataFrame = data
    try:
        return pa.Table.from_pandas(frame, preserve_index=None not in frame.index.names)
    except (pa.ArrowException, AttributeError) as error:
        raise several_kinds(error) from None


def of_polars(data: Any) -> pa.Table:
    """Convert a polars DataFrame. Arrow has no integers of 128 bits, so these become decimals."""
    import polars as pl

    wide = [name for name, type_ in data.schema.items() if str(type_) in ("Int128", "UInt128")]
    return data.with_columns(pl.col(wide).cast(pl.Decimal(38, 0))).to_arrow()


def of_dictionaries(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """A column for each key of any row; what a row lacks is NULL."""
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: of_values(name, [row.get(name) for row in rows]) for name in names})


def of_values(name: str, values: list[Any]) -> pa.Array:
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise several_kinds(f"column {name}: {error}") from None


def several_kinds(what: object) -> DataError:
    return DataError(f"rows cannot be read as columns: {what}", hint="give all values of a column one type")
