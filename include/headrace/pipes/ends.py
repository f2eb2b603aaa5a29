"""What lies at both ends of a pipe: a table or tree of the catalog, or the plugin with the place that its attributes name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.model.pipes import PipeStage
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.lookup import plugin_name

TABLE_SOURCE: Final = "table-source"
TREE_SOURCES: Final = ("iotdb-source", "iotdb-extractor")
PLACES: Final = ("path", "pattern", "topic", "uri", "ip", "host", "thrift.host", "node-urls", "url", "broker", "bootstrap.servers")
"""Attributes of a stage that say where it reads or writes, the most telling first."""
ALL_TREES: Final = "root.**"


@dataclass(frozen=True, slots=True)
class PipeEnd:
    """An end of a pipe: a name for it, and whether it is of the catalog."""

    label: str
    is_stored: bool


def end_of(attributes: Mapping[str, str], stage: PipeStage) -> PipeEnd:
    """Return an end of a pipe by the attributes of its source or sink."""
    plugin, read = plugin_name(stage, attributes).lower(), PipeAttributes(attributes)
    if plugin == TABLE_SOURCE:
        return PipeEnd(f"{read.text('database')}.{read.text('table')}", True)
    place = next((value for name in PLACES if (value := read.text(name))), "")
    if plugin in TREE_SOURCES:
        return PipeEnd(place or ALL_TREES, True)
    return PipeEnd(f"{plugin} {place}".strip(), False)
