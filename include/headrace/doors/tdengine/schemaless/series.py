"""The series that a row belongs to: the supertable, its tags, and the name of the subtable, made as TDengine makes them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.errors import DataError
from headrace.model.remembering import remembered
from headrace.model.types import BOOL, DOUBLE, DataType, TypeKind
from headrace.service.names import MAX_NAME_BYTES

PART: Final = re.compile(r"(?:[^,\\]|\\.)++", re.DOTALL)
TAG: Final = re.compile(r"((?:[^=\\]|\\.)++)=(.*)", re.DOTALL)
ESCAPE: Final = re.compile(r"\\([,= \\])")
NO_TAG: Final = "_tag_null"
"""The tag of a supertable whose rows have none: a supertable has at least one."""
SHORTEST_TEXT: Final = DataType(TypeKind.NCHAR, 1)
MAX_SERIES: Final = 200_000
"""Series whose names are remembered."""


@dataclass(frozen=True, slots=True)
class Tag:
    """The value of a tag, and the type that holds it."""

    name: str
    value: str | float | bool | None
    type: DataType = SHORTEST_TEXT


def text_tag(name: str, value: str) -> Tag:
    return Tag(name, value, DataType(TypeKind.NCHAR, max(len(value), 1)))


@dataclass(frozen=True, slots=True)
class Series:
    """A subtable: the names of its supertable and its own, and its tags in the order of their names."""

    table: str
    subtable: str
    tags: tuple[Tag, ...]


@remembered(MAX_SERIES)
def series_of_line(head: str) -> Series | str:
    """Return the series of a line's measurement and tags, `measurement,tag=value`; a text that says what is wrong if there is none.

    Texts are remembered too, so that a client that repeats its mistake costs little.
    """
    measurement, *parts = [part.group() for part in PART.finditer(head)] or [""]
    tags: dict[str, str] = {}
    for part in parts:
        match = TAG.fullmatch(part)
        if match is None or not match[2]:
            return f"{part!r} is no tag: write name=value"
        name = unescaped(match[1])
        if name in tags:
            return f"the tag {name} is there twice"
        tags[name] = unescaped(match[2])
    if len(PART.sub("", head)) != len(parts):
        return "there is a comma too many before the fields"
    return make_series(unescaped(measurement), [text_tag(name, value) for name, value in tags.items()])


@remembered(MAX_SERIES)
def series_of_json(head: str) -> Series | str:
    """Return the series of an OpenTSDB metric and its tags, `["metric",{"tag":value}]`; else a text, as `series_of_line` does."""
    try:
        metric, tags = json.loads(head)
        if not isinstance(metric, str) or not metric:
            return "a point needs its metric"
        if tags is not None and not isinstance(tags, dict):
            return "the tags are no object"
        return make_series(metric, [tag_of_json(name, value) for name, value in (tags or {}).items()])
    except DataError as error:
        return error.message
    except (ValueError, OverflowError, RecursionError):  # also of half a surrogate pair, and of a number beyond DOUBLE
        return "the tags cannot be read"


def tag_of_json(name: str, value: Any) -> Tag:
    """Return a tag of JSON: a text, a number or a boolean, or an object with a value and its type."""
    if isinstance(value, Mapping) and "value" in value:
        value = value["value"]
    match value:
        case bool():
            return Tag(name, value, BOOL)
        case int() | float():
            return Tag(name, float(value), DOUBLE)
        case str():
            return text_tag(name, value)
        case _:
            raise DataError(f"the tag {name} has {value!r}, which is neither text, number nor boolean", hint="give it one")


def make_series(measurement: str, tags: list[Tag]) -> Series | str:
    """Return the series of a measurement and tags."""
    name = measurement.replace(".", "_")
    if not name or len(name.encode()) > MAX_NAME_BYTES:
        return f"the name of a table has 1 to {MAX_NAME_BYTES} bytes"
    ordered = tuple(sorted(tags, key=lambda tag: tag.name))
    text = ",".join([measurement, *(f"{tag.name}={shown(tag.value)}" for tag in ordered)])
    digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    return Series(name, f"t_{digest}", ordered or (Tag(NO_TAG, None),))


def shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def unescaped(text: str) -> str:
    return ESCAPE.sub(r"\1", text) if "\\" in text else text
