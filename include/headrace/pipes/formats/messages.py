"""What a format makes of messages, and the settings that all formats share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import pyarrow as pa

from headrace.errors import TerminalError
from headrace.model.time import Precision
from headrace.pipes.attributes import PipeAttributes, pipe_error
from headrace.pipes.events import DeviceRows

FORMATS: Final = ("json", "csv", "line")
PRECISIONS: Final = tuple(precision.value for precision in Precision)
ID: Final = "id"
KEY: Final = "key"
VALUE: Final = "value"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A message that cannot be read: its index among the messages, and why."""

    index: int
    reason: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """What messages say.

    Attributes:
        data: The rows. All rows of a device are in the same element, in the order of the messages.
        unreadable: The messages that cannot be read, none of which has rows in `data`, in order.
    """

    data: Sequence[DeviceRows] = ()
    unreadable: Sequence[Unreadable] = ()


@dataclass(frozen=True, slots=True)
class Texts:
    """Rows as texts, without rows that have no values.

    Attributes:
        devices: The path of the device of each row.
        texts: The text of each row.
    """

    devices: pa.Array
    texts: pa.Array


class Encoder(Protocol):
    """Writes rows as texts."""

    def encode(self, data: DeviceRows) -> Texts:
        """Return a text for each row that has values."""


class Decoder(Protocol):
    """Reads messages."""

    def decode(self, messages: pa.Table) -> Decoded:
        """Return what messages say: `id` (INT64, ascending), `key` (the device as text, or NULL) and `value` (text)."""


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """The settings of a format.

    Attributes:
        name: The format.
        precision: The unit of times in messages; None for the default.
        columns: The columns of CSV, if messages have no header.
        device_field: The field or tag that has the device.
        device: The device of all messages.
        uses_key: Whether the key of a message is the device.
        database: The database below which devices are that do not begin with `root`.
        keeps_integers: Whether whole numbers of JSON and CSV become INT64; otherwise DOUBLE.
    """

    name: str
    precision: Precision | None = None
    columns: tuple[str, ...] = ()
    device_field: str = ""
    device: str = ""
    uses_key: bool = False
    database: str = ""
    keeps_integers: bool = False
    time_fields: tuple[str, ...] = field(default=("timestamp", "time"))

    @property
    def input_precision(self) -> Precision:
        """The unit of times that are read."""
        return self.precision or (Precision.NANOSECOND if self.name == "line" else Precision.MILLISECOND)

    def output_precision(self, precision: Precision) -> Precision:
        """Return the unit of times that are written, for rows with a precision."""
        return self.precision or (Precision.NANOSECOND if self.name == "line" else precision)


def output_options(attributes: PipeAttributes) -> FormatOptions:
    """Return the settings of a sink.

    Raises:
        ProgrammingError: A value is not one of those that there are.
    """
    return FormatOptions(
        name=attributes.choice("format", options=FORMATS, default="json"),
        precision=chosen_precision(attributes),
        columns=listed(attributes.text("csv.columns")),
    )


def input_options(attributes: PipeAttributes) -> FormatOptions:
    """Return the settings of a source.

    Raises:
        ProgrammingError: A value is not one of those that there are, or there are two ways to find the device.
    """
    options = FormatOptions(
        name=attributes.choice("format", options=FORMATS, default="json"),
        precision=chosen_precision(attributes),
        columns=listed(attributes.text("csv.columns")),
        device_field=attributes.text("device.field"),
        device=attributes.text("device"),
        uses_key=attributes.boolean("device.key", default=False),
        database=attributes.text("database"),
        keeps_integers=attributes.choice("integer.type", options=("double", "int64"), default="double") == "int64",
    )
    if sum(map(bool, (options.device, options.device_field, options.uses_key))) > 1:
        raise pipe_error("only one of device, device.field and device.key can be specified")
    return options


def chosen_precision(attributes: PipeAttributes) -> Precision | None:
    value = attributes.choice("timestamp.precision", options=("", *PRECISIONS), default="")
    return Precision(value) if value else None


def listed(text: str) -> tuple[str, ...]:
    """Return the parts of a list with commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def unreadable_error(where: str, reason: str) -> TerminalError:
    """Return the error of a message that cannot be read."""
    return TerminalError(
        f"the message {where} cannot be read: {reason}",
        hint="fix the format or the device, or set dead-letter.topic or on-error=skip",
    )
