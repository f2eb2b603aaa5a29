"""The encoder and the decoder of a format, by its name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipes.formats.csv_rows import CsvDecoder, CsvEncoder
from headrace.pipes.formats.json_rows import JsonDecoder, JsonEncoder
from headrace.pipes.formats.line_protocol import LineDecoder, LineEncoder
from headrace.pipes.formats.messages import ID, Decoded, Decoder, Encoder, FormatOptions, Unreadable

logger = logging.getLogger(__name__)

ENCODERS: Final[Mapping[str, Callable[[FormatOptions], Encoder]]] = {"json": JsonEncoder, "csv": CsvEncoder, "line": LineEncoder}
DECODERS: Final[Mapping[str, Callable[[FormatOptions], Decoder]]] = {"json": JsonDecoder, "csv": CsvDecoder, "line": LineDecoder}


def encoder(options: FormatOptions) -> Encoder:
    """Return the encoder of the format that the options name."""
    return ENCODERS[options.name](options)


def decoder(options: FormatOptions) -> Decoder:
    """Return the decoder of the format that the options name."""
    return CarefulDecoder(DECODERS[options.name](options))


@dataclass(frozen=True, slots=True)
class CarefulDecoder:
    """Reads messages. Those on which a decoder fails are unreadable, and keep no others from being read."""

    decoder: Decoder

    def decode(self, messages: pa.Table) -> Decoded:
        """Return what messages say."""
        try:
            return self.decoder.decode(messages)
        except Exception:
            logger.debug("a message cannot be decoded", exc_info=True)
        failing = list(self._failing(messages))
        ids = pa.array([one.index for one in failing], pa.int64())
        decoded = self.decode(messages.filter(pc.invert(pc.is_in(messages[ID], ids))))
        return Decoded(decoded.data, sorted([*decoded.unreadable, *failing], key=lambda one: one.index))

    def _failing(self, messages: pa.Table) -> Iterator[Unreadable]:
        """Yield the messages on which the decoder fails also if it is given no other."""
        try:
            self.decoder.decode(messages)
        except Exception as error:
            if messages.num_rows == 1:
                yield Unreadable(messages[ID][0].as_py(), f"{type(error).__name__}: {error}")
                return
            half = messages.num_rows // 2
            yield from self._failing(messages.slice(0, half))
            yield from self._failing(messages.slice(half))
