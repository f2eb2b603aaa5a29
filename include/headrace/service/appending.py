"""Write rows that a program holds (Arrow, pandas, polars, dictionaries) as a file for the loader."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    """Write rows to a temporary Parquet file, removed on exit.

    Raises:
        InterfaceError: The object does not hold rows.
        DataError: A column mixes values of several types.
    """
    reader = open_batches(data)
    with tempfile.TemporaryDirectory(prefix="headrace-append-") as folder:
        path = Path(folder) / FILE_NAME
        with pq.ParquetWriter(path, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
        yield path


def open_batches(data: object) -> pa.RecordBatchReader:
    module = type(data).__module__.partition(".")[0]
    if isinstance(data, pa.RecordBatchReader):
        return data
    if module == "pandas":
        return pandas_to_arrow(data).to_reader()
    if module == "polars" and hasattr(data, "to_arrow"):
        return polars_to_arrow(data).to_reader()
    if isinstance(data, Sequence) and all(isinstance(row, Mapping) for row in data):
        return dicts_to_arrow(data).to_reader()
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data]).to_reader()
    raise InterfaceError(
        f"cannot read rows from {type(data).__name__}",
        hint="pass an Arrow table, a DataFrame of pandas or polars, or a list of dictionaries",
    )


def pandas_to_arrow(data: Any) -> pa.Table:
    """Convert a pandas DataFrame, with its index if that has a name. NaN and NaT become NULL."""
    frame: pd.DataFrame = data
    try:
        unsigned = [name for name in frame.select_dtypes("object") if has_wide_integers(frame[name])]
        typed = frame.astype(dict.fromkeys(unsigned, "UInt64"))
        return pa.Table.from_pandas(typed, preserve_index=None not in frame.index.names)
    except (pa.ArrowException, AttributeError, OverflowError, TypeError, ValueError) as error:
        raise mixed_types_error(error) from None


def polars_to_arrow(data: Any) -> pa.Table:
    """Convert a polars DataFrame. Arrow has no 128-bit integers, so these become decimals."""
    import polars as pl

    wide = [name for name, type_ in data.schema.items() if str(type_) in ("Int128", "UInt128")]
    return data.with_columns(pl.col(wide).cast(pl.Decimal(38, 0))).to_arrow()


def dicts_to_arrow(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Convert dictionaries: one column for each key of any row, NULL where a row lacks it."""
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: values_to_arrow(name, [row.get(name) for row in rows]) for name in names})


def values_to_arrow(name: str, values: list[Any]) -> pa.Array:
    try:
        return pa.array(values, pa.uint64() if has_wide_integers(values) else None, from_pandas=True)
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise mixed_types_error(f"column {name}: {error}") from None


def has_wide_integers(values: Iterable[object]) -> bool:
    """Return whether there are whole numbers that only unsigned integers hold."""
    return any(isinstance(value, int) and value >= 2**63 for value in values)


def mixed_types_error(cause: object) -> DataError:
    return DataError(f"rows cannot be read as columns: {cause}", hint="give all values of a column one type")
