"""Requests to a code host, as its operations see them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.code.protocol import Header, Message, Rows, decode_parameters
from headrace.udf.parameters import Parameters

if TYPE_CHECKING:
    import pyarrow as pa

Answer = tuple[Header, "Rows | None"]
TimeRange = tuple[int, int]


class CallLostError(Exception):
    """A request continues a call that this host does not have."""


@dataclass(slots=True)
class Progress:
    """What an operation is working on: the number of a series or group, and the first and last time of its rows.

    `position` returns the times of the row or window that the function has received last, None if there is none.
    `subject` takes the place of the number if it is not empty.
    """

    number: int | None = None
    subject: str = ""
    times: TimeRange | None = None
    position: Callable[[], TimeRange | None] = lambda: None

    def enter(self, number: int, rows: pa.RecordBatch) -> None:
        """Begin with the rows of a series or group, in order of time, or with states of a group, which have no times."""
        self.number = number
        self.times = (rows["time"][0].as_py(), rows["time"][-1].as_py()) if "time" in rows.schema.names else None

    def time_range(self) -> TimeRange | None:
        """Return the times of the rows, as exactly as possible."""
        return self.position() or self.times


@dataclass(slots=True)
class Request:
    """A request for an operation on a class, and how far it has got."""

    class_: type[Any]
    message: Message
    progress: Progress

    @property
    def header(self) -> Header:
        """The header of the message."""
        return self.message.header

    def parameters(self) -> Parameters:
        """Return the parameters of the call."""
        return decode_parameters(self.header["parameters"])

    def rows(self) -> pa.RecordBatch:
        """Return the rows of the message as one batch."""
        import pyarrow as pa

        table = self.message.table().combine_chunks()
        return table.to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], table.schema)
