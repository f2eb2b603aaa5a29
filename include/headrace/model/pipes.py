"""Pipes: jobs that move data continuously from a source through a processor to a sink, each of which is a plugin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

RESERVED_PREFIX: Final = "__"
"""How names of pipes may not begin."""


class PipeStage(StrEnum):
    """A stage of a pipe, by the first of the two names that statements have for it."""

    SOURCE = "source"
    PROCESSOR = "processor"
    SINK = "sink"


OTHER_NAMES: Final[Mapping[PipeStage, str]] = {
    PipeStage.SOURCE: "extractor",
    PipeStage.PROCESSOR: "processor",
    PipeStage.SINK: "connector",
}
"""The second name of each stage, in statements and in prefixes of keys."""

DEFAULT_PLUGINS: Final[Mapping[PipeStage, str]] = {
    PipeStage.SOURCE: "iotdb-source",
    PipeStage.PROCESSOR: "do-nothing-processor",
    PipeStage.SINK: "iotdb-thrift-sink",
}
"""The plugin of a stage that names none."""

KEY_PREFIXES: Final = ("extractor.", "source.", "processor.", "connector.", "sink.")
"""What keys of attributes may begin with, in any case."""

HIDDEN_VALUE: Final = "******"
"""What is shown in place of a password."""


NEXT_CHUNK: Final = "#history"
"""In the offsets of a pipe that reads tables: the next chunk of the history; without it, the history is done."""


def without_prefix(key: str) -> str:
    """Return a key without one leading prefix; the prefix is recognized in any case."""
    lower = key.lower()
    for prefix in KEY_PREFIXES:
        if lower.startswith(prefix):
            return key[len(prefix) :]
    return key


@dataclass(frozen=True, slots=True)
class Pipe:
    """The stages of a pipe: attributes by key, as typed. The values of passwords are encrypted or refer to a secret.

    Attributes:
        source: Attributes of the source.
        processor: Attributes of the processor.
        sink: Attributes of the sink.
        started: When the present definition began to run, in epoch milliseconds: when the pipe was created or last altered.
    """

    source: Mapping[str, str] = field(default_factory=dict)
    processor: Mapping[str, str] = field(default_factory=dict)
    sink: Mapping[str, str] = field(default_factory=dict)
    started: int = 0

    def stage(self, stage: PipeStage) -> Mapping[str, str]:
        """Return the attributes of a stage."""
        attributes: Mapping[str, str] = getattr(self, stage.value)
        return attributes
