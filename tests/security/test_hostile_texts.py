"""Long texts that make regular expressions go back and forth: each of ours reads them in a time that grows with their length."""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import permutations
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

import pytest

import headrace
from headrace.errors import Error
from headrace.model.masking import masked
from headrace.sql import parse

PACKAGE: Final = Path(headrace.__file__).parent
LENGTH: Final = 8_000
MAX_S: Final = 0.1
"""Time of a processor. What goes back at each character takes minutes."""
OWN: Final = ("cli/", "airflow/", "notebook/", "verify/", "service/remote_connection.py")
"""Parts that read texts of whoever runs them, not of others."""
BOUNDED: Final = {"service/completion.py:WORD"}
"""Expressions that are given a bounded part of a text."""
SOURCES: Final = {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
SEARCHES: Final = "search|sub|subn|finditer|findall|split"


def patterns() -> Iterator[tuple[str, re.Pattern[Any]]]:
    """Yield the expressions of all modules, with their places."""
    for name, source in SOURCES.items():
        if "re.compile(" not in source or name.startswith(OWN):
            continue
        module = importlib.import_module("headrace." + name.removesuffix(".py").replace("/", "."))
        for variable, value in vars(module).items():
            if isinstance(value, re.Pattern):
                yield f"{name}:{variable}", value
            elif type(value).__module__ == module.__name__:
                yield from ((f"{name}:{variable}.{key}", own) for key, own in attributes(value) if isinstance(own, re.Pattern))


def seconds(read: Callable[..., object], *arguments: object) -> float:
    """Return the time of a processor that reading takes, the shorter one of two."""
    times = []
    for _ in range(2):
        started = time.thread_time()
        with suppress(Error):
            read(*arguments)
        times.append(time.thread_time() - started)
        if times[-1] < MAX_S:
            break
    return min(times)


def attributes(value: object) -> Iterator[tuple[str, object]]:
    yield from getattr(value, "__dict__", {}).items()


def letters(parsed: Any) -> Iterator[str]:
    """Yield a character for each thing that an expression reads."""
    for code, argument in parsed:
        if code in (codes.LITERAL, codes.NOT_LITERAL):
            yield chr(argument)
        elif code is codes.IN:
            yield from members(argument)
        elif code is codes.ANY:
            yield "x"
        elif isinstance(argument, tuple | list):
            for part in argument:
                if isinstance(part, parser.SubPattern):
                    yield from letters(part)
                elif isinstance(part, list):
                    yield from (one for own in part if isinstance(own, parser.SubPattern) for one in letters(own))


def members(parts: Any) -> Iterator[str]:
    for code, argument in parts:
        if code is codes.LITERAL:
            yield chr(argument)
        elif code is codes.RANGE:
            yield chr(argument[0])
        elif code is codes.CATEGORY:
            yield {codes.CATEGORY_SPACE: " ", codes.CATEGORY_DIGIT: "1", codes.CATEGORY_WORD: "a"}.get(argument, "~")


def hostile_texts(pattern: re.Pattern[Any]) -> Iterator[str]:
    """Yield long texts of what an expression reads, after each beginning that it may have, which end as nothing does."""
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    own = list(dict.fromkeys(letters(parser.parse(text, pattern.flags & ~re.DEBUG))))
    start = "".join(own[:4])
    for part in [*own[:10], *map("".join, permutations(own[:4], 2))]:
        for before in ("", start):
            yield before + part * (LENGTH // len(part)) + "\0"


def is_searched(place: str) -> bool:
    """Return whether an expression is looked for in texts, and not only at their beginning."""
    path, _, name = place.partition(".py:")
    name = name.rpartition(".")[2]
    module = "headrace." + path.replace("/", ".")
    use = re.compile(rf"\b{name}\.(?:{SEARCHES})\(|\bre\.(?:{SEARCHES})\({name}\b")
    return any(use.search(source) for other, source in SOURCES.items() if other == f"{path}.py" or module in source)


PATTERNS: Final = {place: pattern for place, pattern in patterns() if place not in BOUNDED}


@pytest.mark.parametrize("place", PATTERNS)
def test_no_expression_goes_back_and_forth(place: str) -> None:
    pattern = PATTERNS[place]
    uses: list[Callable[[Any], object]] = [pattern.fullmatch]
    if is_searched(place):
        uses.append(pattern.findall)
    for text in hostile_texts(pattern):
        content = text if isinstance(pattern.pattern, str) else text.encode()
        for use in uses:
            assert seconds(use, content) < MAX_S, (place, pattern.pattern, text[:20])


PARTS: Final = (
    "'",
    '"',
    "`",
    "\\",
    "\\'",
    "''",
    "(",
    "a.",
    "1",
    "1e",
    "0x",
    " ",
    "-",
    "--",
    "/*",
    "*/",
    "-- \n",
    "a ",
    "a,",
    ";",
    "%",
    "1m",
    "::",
    "\ud7ff",
)
READS: Final[dict[str, Callable[[str], object]]] = {
    "tdengine": lambda text: parse(text, "tdengine"),
    "iotdb": lambda text: parse(text, "iotdb"),
    "masked": masked,
}
STARTS: Final = (
    "",
    "SELECT ",
    "INSERT INTO t VALUES (",
    "CREATE USER u '",
    "ALTER USER a SET PASSWORD ",
    "SELECT '",
    'SELECT "',
    "CREATE PIPE p WITH SINK ('password'='",
)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("read", READS)
def test_statements_are_read_in_linear_time(start: str, read: str) -> None:
    for part in PARTS:
        text = start + part * (LENGTH // len(part))
        assert seconds(READS[read], text) < 10 * MAX_S, (start, part)
