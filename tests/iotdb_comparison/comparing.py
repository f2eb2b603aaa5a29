"""Comparison of the answers to one statement."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final

from tests.iotdb_comparison.outcomes import Answer, Column, Outcome, Refusal, Value, values_equal

UNORDERED: Final = re.compile(
    r"select last (?!.*order by .*timeseries)|show timeseries .* where tags|count timeseries .* group by",
    re.IGNORECASE,
)
"""Statements whose rows the server returns in an order of chance."""
RANDOM: Final = re.compile(r"equal_size_bucket_random_sample|\bsample\((?![^()]*'method'='(isometric|triangle)')")
"""Calls whose rows are chosen by chance."""


def difference(statement: str, ours: Outcome, theirs: Outcome) -> str | None:
    """Return what differs between two answers, or None."""
    return next(differences(statement, ours, theirs), None)


def differences(statement: str, ours: Outcome, theirs: Outcome) -> Iterator[str]:
    """Yield what differs, the most general first."""
    match ours, theirs:
        case Refusal(), Refusal():
            if ours.status != theirs.status:
                yield f"status: ours {ours.status}: {ours.message}\n        IoTDB's {theirs.status}: {theirs.message}"
        case Refusal(), Answer():
            yield f"refused: {ours.status}: {ours.message}\n        IoTDB answers {summary(theirs)}"
        case Answer(), Refusal():
            yield f"answered: {summary(ours)}\n        IoTDB refuses {theirs.status}: {theirs.message}"
        case Answer(), Answer():
            yield from answer_differences(statement, ours, theirs)


def answer_differences(statement: str, ours: Answer, theirs: Answer) -> Iterator[str]:
    """Yield what differs between two results."""
    if names(ours) != names(theirs):
        yield f"names: ours    {names(ours)}\n        IoTDB's {names(theirs)}"
        return
    if ours.columns != theirs.columns:
        types = [(mine.name, mine.type, other.type) for mine, other in zip(ours.columns, theirs.columns, strict=True)]
        yield f"types: {[pair for pair in types if pair[1] != pair[2]]}"
    if len(ours.rows) != len(theirs.rows):
        yield f"rows: ours {len(ours.rows)}, IoTDB's {len(theirs.rows)}; {first_row(ours, theirs)}"
    if UNORDERED.match(statement):
        ours, theirs = (Answer(side.columns, tuple(sorted(side.rows, key=repr))) for side in (ours, theirs))
    if not RANDOM.search(statement):
        yield from cell_differences(ours, theirs)


def first_row(ours: Answer, theirs: Answer) -> str:
    """Return the first row that differs by more than rounding."""
    for at, (mine, other) in enumerate(zip_longest(ours.rows, theirs.rows)):
        if mine is None or other is None or not rows_equal(mine, other, theirs.columns):
            return f"row {at}: ours {mine}, IoTDB's {other}"
    return ""


def rows_equal(mine: Sequence[Value], other: Sequence[Value], columns: Sequence[Column]) -> bool:
    """Return whether two rows are equal up to rounding."""
    return all(values_equal(one, two, column.type) for one, two, column in zip(mine, other, columns, strict=True))


def cell_differences(ours: Answer, theirs: Answer) -> Iterator[str]:
    """Yield cells that differ. Columns of one name have one value in IoTDB's client, so only the first is compared."""
    headers = names(ours)
    columns = [at for at, name in enumerate(headers) if headers.index(name) == at]
    for row, (mine, other) in enumerate(zip(ours.rows, theirs.rows, strict=False)):
        for at in columns:
            if not values_equal(mine[at], other[at], theirs.columns[at].type):
                cells = f"row {row}, {headers[at]}: ours {mine[at]!r}, IoTDB's {other[at]!r}"
                yield f"value: {cells}\n        ours    {mine}\n        IoTDB's {other}"


def summary(answer: Answer) -> str:
    """Return the size and the beginning of a result."""
    return f"{len(answer.rows)} rows of {names(answer)}: {answer.rows[:2]}"


def names(answer: Answer) -> list[str]:
    """Return the names of the columns."""
    return [column.name for column in answer.columns]
