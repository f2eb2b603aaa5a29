"""The encoder and the decoder of a format, by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from headrace.pipes.formats.csv_rows import CsvDecoder, CsvEncoder
from headrace.pipes.formats.json_rows import JsonDecoder, JsonEncoder
from headrace.pipes.formats.line_protocol import LineDecoder, LineEncoder
from headrace.pipes.formats.messages import Decoder, Encoder, FormatOptions

ENCODERS: Final[Mapping[str, Callable[[FormatOptions], Encoder]]] = {"json": JsonEncoder, "csv": CsvEncoder, "line": LineEncoder}
DECODERS: Final[Mapping[str, Callable[[FormatOptions], Decoder]]] = {"json": JsonDecoder, "csv": CsvDecoder, "line": LineDecoder}


def encoder(options: FormatOptions) -> Encoder:
    """Return the encoder of the format that the options name."""
    return ENCODERS[options.name](options)


def decoder(options: FormatOptions) -> Decoder:
    """Return the decoder of the format that the options name."""
    return DECODERS[options.name](options)
