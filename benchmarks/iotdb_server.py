"""An IoTDB server to compare with, if its Python client (`apache-iotdb`) is installed."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

COLUMNS = ("current", "voltage", "phase")


class IotdbServer:
    """A session of an IoTDB server."""

    def __init__(self, address: str) -> None:
        """Open a session at `host:port` as the default user."""
        from iotdb.Session import Session

        host, _, port = address.partition(":")
        self._session = Session(host, int(port), "root", "root", zone_id="UTC", fetch_size=50_000)
        self._session.open(False)

    def execute(self, sql: str) -> None:
        """Run a statement that returns no rows."""
        self._session.execute_non_query_statement(sql)

    def query(self, sql: str) -> int:
        """Run a query, fetch its rows as a data frame, and return how many there are."""
        with self._session.execute_query_statement(sql) as result:
            return len(result.todf())

    def count(self, database: str) -> int:
        """Return the number of rows of all devices of a database."""
        with self._session.execute_query_statement(f"SELECT count(voltage) FROM {database}.** ALIGN BY DEVICE") as result:
            counts = result.todf()
        return 0 if counts.empty else int(counts["count(voltage)"].sum())

    def load(self, frame: DataFrame) -> None:
        """Write rows of `benchmarks.tree_data`, one tablet for each device, and flush them to files. Memory has to hold them."""
        from iotdb.utils.IoTDBConstants import TSDataType
        from iotdb.utils.NumpyTablet import NumpyTablet

        types = [TSDataType.FLOAT, TSDataType.INT32, TSDataType.FLOAT]
        big_endian = (">f4", ">i4", ">f4")
        for device, rows in rows_by_device(frame.toArrow()):
            values = [rows[name].to_numpy().astype(type_) for name, type_ in zip(COLUMNS, big_endian, strict=True)]
            times = (rows["time"].cast(pa.int64()).to_numpy() // 1000).astype(">i8")
            self._session.insert_aligned_tablet(NumpyTablet(device, list(COLUMNS), types, values, times))
        self.execute("FLUSH")

    def close(self) -> None:
        """Close the session."""
        self._session.close()


def rows_by_device(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of each device, in the order of time."""
    ordered = rows.sort_by([("device", "ascending"), ("time", "ascending")]).combine_chunks()
    names = pc.dictionary_encode(ordered["device"]).combine_chunks()
    codes: np.ndarray[Any, Any] = names.indices.to_numpy()
    starts: Sequence[int] = [*np.flatnonzero(np.diff(codes, prepend=-1)).tolist(), len(codes)]
    for start, end in itertools.pairwise(starts):
        yield names.dictionary[int(codes[start])].as_py(), ordered.slice(start, end - start)
