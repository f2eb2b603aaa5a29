"""The examples of the reference of the function library.

An example is a block with a column for each time, a row for each series, and a row for each call with its points. `-` is no point,
as is a cell that a row lacks at its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headrace.library import find_class
from headrace.udf import UDTF, Type
from tests.library.calls import call, rows_of

PAGE: Final = Path(__file__).resolve().parents[2] / "docs/reference/functions-library.md"
ENTRY: Final = re.compile(r"^### (\w+)\n\nClass `([\w.]+)`\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
TABLE: Final = re.compile(r"^```\n(Time .*\n(?:.*\n)+?)```$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ExampleCall:
    """A call as written, with the values that the page shows: one for each time, None for no point."""

    text: str
    shown: list[Any]

    @property
    def arguments(self) -> list[str]:
        """The names of the series."""
        return re.findall(r"(?<=[(\s])\w+(?=[,)])", self.text)

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes by key."""
        return dict(re.findall(r"'([^']*)'='([^']*)'", self.text))


@dataclass(frozen=True, slots=True)
class Example:
    """Series of numbers at common times, in milliseconds, and calls over them. None is NULL."""

    name: str
    class_name: str
    times: list[int]
    series: dict[str, list[Any]]
    calls: list[ExampleCall]

    def points(self, one: ExampleCall) -> dict[int, Any]:
        """Return the points of a call by time."""
        return self.evaluate(self.class_name, one.arguments, one.attributes)

    def evaluate(self, class_name: str, arguments: list[str], attributes: dict[str, str]) -> dict[int, Any]:
        """Return the points by time of a function over the series of the example."""
        function = find_class(class_name)
        assert function is not None
        assert issubclass(function, UDTF)
        types = [Type.DOUBLE] * len(arguments)
        return dict(call(function, rows_of(self.times, [self.series[name] for name in arguments], types), types, attributes))


def examples() -> Iterator[Example]:
    """Yield the examples of the page."""
    for name, class_name, text in ENTRY.findall(PAGE.read_text()):
        for table in TABLE.findall(text):
            header, *lines = (re.split(r" {2,}", line) for line in table.splitlines())
            times = [int(cell) for cell in header[1:]]
            rows = {label: [*map(value, texts), *[None] * (len(times) - len(texts))] for label, *texts in lines}
            series = {label: values for label, values in rows.items() if "(" not in label}
            calls = [ExampleCall(label, values) for label, values in rows.items() if "(" in label]
            yield Example(name, class_name, times, series, calls)


def value(text: str) -> Any:
    return {"-": None, "true": True, "false": False}[text] if text in {"-", "true", "false"} else float(text)
