"""Checks that a difference has its reason: our answer follows from what the server answers to questions without the fault."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Final

from tests.iotdb_comparison.comparing import difference, names
from tests.iotdb_comparison.explaining import Evidence
from tests.iotdb_comparison.outcomes import Answer, Refusal, Value, values_equal

QUERY: Final = re.compile(
    r"select (?P<items>.+?) from (?P<paths>\S+(, \S+)*)( where (?P<where>.+?))?(?P<rest>( group by .+?)?( order by .+?)?"
    r"( limit (?P<limit>\d+)( offset (?P<offset>\d+))?)?(?P<by_device> align by device)?)",
    re.IGNORECASE,
)
ROOT: Final = re.compile(r"\broot\.")
NESTED: Final = re.compile(r"\w+\((\w+\([^()]*\))")
SERIES: Final = re.compile(r"\bs\d+\b")
FULL_SERIES: Final = re.compile(r"root\.[\w.]+\.s\d+\b")

Key = tuple[Value, Value]
"""The time of a row and its device, of which each may be None."""
Cells = Mapping[tuple[Key, str], Value]
"""The values of a result that are not NULL, by row and column."""


@dataclass(frozen=True, slots=True)
class Query:
    """The parts of a query; `rest` is what follows its conditions."""

    items: str
    paths: str
    where: str
    rest: str
    limit: int | None
    offset: int
    by_device: bool

    def __str__(self) -> str:
        where = f" where {self.where}" if self.where else ""
        return f"select {self.items} from {self.paths}{where}{self.rest}"


def parse(statement: str) -> Query | None:
    """Return the parts of a query, or None if it has others."""
    match = QUERY.fullmatch(statement)
    if match is None:
        return None
    limit = int(match["limit"]) if match["limit"] else None
    return Query(
        match["items"],
        match["paths"],
        match["where"] or "",
        match["rest"],
        limit,
        int(match["offset"] or 0),
        match["by_device"] is not None,
    )


def cells(answer: Answer) -> Cells | None:
    """Return the values of a result; None if two of its rows have one time and device."""
    headers = names(answer)
    keys = [header for header in ("Time", "Device") if header in headers]
    found: dict[tuple[Key, str], Value] = {}
    seen = set()
    for number, row in enumerate(answer.rows):
        values = dict(zip(headers, row, strict=True))
        key = (values.get("Time", None if "Time" in keys else number), values.get("Device"))
        if key in seen:
            return None
        seen.add(key)
        found |= {(key, name): value for name, value in values.items() if name not in keys and value is not None}
    return found


def differing(ours: Answer, theirs: Answer) -> Iterator[tuple[Key, str, Value, Value]] | None:
    """Return the cells that differ; None if rows have no key."""
    mine, other = cells(ours), cells(theirs)
    if mine is None or other is None or names(ours) != names(theirs):
        return None
    types = {column.name: column.type for column in theirs.columns}
    places = sorted({*mine, *other}, key=repr)
    return (
        (key, name, mine.get((key, name)), other.get((key, name)))
        for key, name in places
        if not values_equal(mine.get((key, name)), other.get((key, name)), types[name])
    )


def is_nan(value: Value) -> bool:
    return isinstance(value, float) and math.isnan(value)


def compares_nan(evidence: Evidence) -> bool:
    """Return whether all comparisons `call > 0.5` that differ are of NaN, which is greater in the server."""
    ours, theirs = evidence.ours, evidence.theirs
    operands = evidence.ask(evidence.statement.replace(" > 0.5 from", " from"))
    if not isinstance(ours, Answer) or not isinstance(theirs, Answer) or not isinstance(operands, Answer):
        return False
    places, compared = differing(ours, theirs), cells(operands)
    if places is None or compared is None:
        return False
    return all(
        (mine, other) == (False, True) and is_nan(compared.get((key, name.removesuffix(" > 0.5"))))
        for key, name, mine, other in places
    )


def equals_without_nan(evidence: Evidence) -> bool:
    """Return whether our answer is the server's for the points that are numbers.

    The server evaluates `s4 + 0 < 1e30` for each row; it may decide `s4 < 1e30` by statistics, which leave NaN out.
    """
    query = parse(evidence.statement)
    if query is None:
        return False
    series = sorted({name for name in SERIES.findall(f"{query.items} {query.where}") if name in {"s3", "s4"}})
    conditions = [f"{name} + 0 < 1e30" for name in series] + ([f"({query.where})"] if query.where else [])
    return equals_answer(evidence, f"select {query.items} from {query.paths} where {' and '.join(conditions)}{query.rest}")


def equals_answer(evidence: Evidence, statement: str) -> bool:
    """Return whether our answer is the server's answer to another statement."""
    return difference(evidence.statement, evidence.ours, evidence.ask(statement)) is None


def lacks_input(evidence: Evidence) -> bool:
    """Return whether the server differs only by values of functions whose series have no rows."""
    query, ours, theirs = parse(evidence.statement), evidence.ours, evidence.theirs
    if query is None or not isinstance(ours, Answer) or not isinstance(theirs, Answer):
        return False
    series = ", ".join(sorted(set(SERIES.findall(query.items)))) or "*"
    where = f" where {query.where}" if query.where else ""
    rows = evidence.ask(f"select {series} from {query.paths}{where}{' align by device' * query.by_device}")
    places = differing(ours, theirs)
    if not isinstance(rows, Answer) or places is None:
        return False
    present = {(device, name) for (_, device), name in cells(rows) or ()}
    return all(
        mine is None and not any((key[1], one) in present for one in (SERIES if query.by_device else FULL_SERIES).findall(name))
        for key, name, mine, _ in places
    )


def lacks_points(evidence: Evidence) -> bool:
    """Return whether we have nothing for a function of a call that returns no points on the server, either."""
    query, ours = parse(evidence.statement), evidence.ours
    inner = NESTED.match(query.items) if query else None
    if query is None or inner is None or not isinstance(ours, Answer):
        return False
    where = f" where {query.where}" if query.where else ""
    points = evidence.ask(f"select {inner[1]} from {query.paths}{where}")
    return isinstance(points, Answer) and not cells(points) and not ours.rows


def equals_columns_alone(evidence: Evidence) -> bool:
    """Return whether our answer is that of the server to each of the columns alone."""
    query, ours = parse(evidence.statement), evidence.ours
    if query is None or not isinstance(ours, Answer) or (query.where and not query.where.startswith("time")):
        return False
    return equals_join(evidence, query, ours, lambda column: [column], lambda values: values[0])


OPERATIONS: Final[dict[str, Callable[[float, float], float]]] = {" + ": operator.add, " - ": operator.sub, " * ": operator.mul}


def equals_operation_of_operands(evidence: Evidence) -> bool:
    """Return whether our answer is the sum, difference or product of the server's answers to the call and to the series alone."""
    query, ours = parse(evidence.statement), evidence.ours
    if query is None or not isinstance(ours, Answer) or query.by_device:
        return False
    sign = next((sign for sign in OPERATIONS if sign in evidence.statement), " + ")
    return equals_join(evidence, query, ours, lambda column: column.rsplit(sign, 1), partial(combine_numbers, OPERATIONS[sign]))


def combine_numbers(operation: Callable[[float, float], float], values: Sequence[Value]) -> Value:
    """Return the result of an operation on numbers, None if one is missing."""
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    return reduce(operation, numbers) if len(numbers) == len(values) else None


def equals_join(
    evidence: Evidence,
    query: Query,
    ours: Answer,
    split: Callable[[str], Sequence[str]],
    combine: Callable[[Sequence[Value]], Value],
) -> bool:
    """Return whether each of our columns combines the server's answers to its parts, each asked alone."""
    headers = [name for name in dict.fromkeys(names(ours)) if name not in {"Time", "Device"}]
    mine = cells(ours)
    devices = {row[names(ours).index("Device")] for row in answered(evidence)} if query.by_device else {None}
    if mine is None or query.limit is not None:
        return False
    expected: dict[tuple[Key, str], Value] = {}
    for device in devices:
        for header in headers:
            parts = [ask_column(evidence, query, device, part) for part in split(header)]
            if any(part is None for part in parts):
                return False
            times = [time for time in parts[0] or () if all(time in (part or ()) for part in parts)]
            expected |= {((time, device), header): combine([part[time] for part in parts if part]) for time in times}
    types = {column.name: column.type for column in ours.columns}
    return mine.keys() == expected.keys() and all(values_equal(mine[place], expected[place], types[place[1]]) for place in mine)


def answered(evidence: Evidence) -> list[tuple[Value, ...]]:
    """Return the rows of both answers."""
    return [row for answer in (evidence.ours, evidence.theirs) if isinstance(answer, Answer) for row in answer.rows]


def ask_column(evidence: Evidence, query: Query, device: Value, column: str) -> dict[Value, Value] | None:
    """Return the values that the server has for a column alone, by time; None if it refuses or repeats a time."""
    item = SERIES.sub(lambda match: f"{device!s}.{match[0]}", column) if device else column
    where = f" where {query.where}" if query.where else ""
    answer = evidence.ask(f"select {ROOT.sub('', item)} from root{where}")
    if not isinstance(answer, Answer) or len({row[0] for row in answer.rows}) < len(answer.rows):
        return None
    return {time: value for time, value in answer.rows if value is not None}


def refuses_windows_alone(evidence: Evidence) -> bool:
    """Return whether the server refuses a call of windows, too, if the query reads no other series."""
    query = parse(evidence.statement)
    calls = re.findall(r"valuerepair\([^()]*\)", query.items) if query else []
    answers = [evidence.ask(f"select {call} from {path}") for call in calls for path in (query.paths.split(", ") if query else ())]
    return any(isinstance(answer, Refusal) and "At least two non-NaN values are needed" in answer.message for answer in answers)


def writes_text_alike(evidence: Evidence) -> bool:
    """Return whether the numbers that are cast to TEXT are equal up to rounding, by the server's answer without the cast."""
    ours = evidence.ours
    numbers = evidence.ask(re.sub(r"cast\((.*) as text\)", r"\1", evidence.statement, flags=re.IGNORECASE))
    if not isinstance(ours, Answer) or not isinstance(numbers, Answer) or len(ours.rows) != len(numbers.rows):
        return False
    return all(
        math.isclose(float(str(mine[-1])), float(str(other[-1])), rel_tol=1e-9, abs_tol=1e-9)
        for mine, other in zip(ours.rows, numbers.rows, strict=True)
    )


def divides_by_zero(evidence: Evidence) -> bool:
    """Return whether the last finite value of the divisor of each `deconv` is 0."""
    query = parse(evidence.statement)
    divisors = re.findall(r"deconv\([^(),]+, (s\d)\b", query.items) if query else []
    for divisor in divisors:
        answer = (
            evidence.ask(f"select {divisor} from {query.paths}{f' where {query.where}' if query.where else ''}") if query else None
        )
        values = [row[1] for row in answer.rows if row[1] is not None and not is_nan(row[1])] if isinstance(answer, Answer) else []
        if not values or values[-1] != 0:
            return False
    return bool(divisors)


CALL_PARTS: Final = re.compile(r"(\w+)\(((?:s\d+(?:, )?)+)(.*)\)")
ESTIMATE: Final = re.compile(r"\b(median|percentile)\((s\d)\b(?:, '\w+'='[^']*')*\)")


def shortens_calls(evidence: Evidence) -> bool:
    """Return whether the server has our columns, and others of the same calls without the series that some devices lack."""
    ours, theirs = evidence.ours, evidence.theirs
    if not isinstance(ours, Answer) or not isinstance(theirs, Answer):
        return False
    known, headers = names(ours), names(theirs)
    calls = [match for match in map(CALL_PARTS.fullmatch, known) if match]
    others = [match for match in map(CALL_PARTS.fullmatch, (name for name in headers if name not in known)) if match]
    if len(known) + len(others) != len(headers) or not all(any(is_part(other, call) for call in calls) for other in others):
        return False
    kept = [headers.index(name) for name in known]
    rows = [tuple(row[at] for at in kept) for row in theirs.rows]
    columns = tuple(theirs.columns[at] for at in kept)
    full = tuple(row for row in rows if any(value is not None for value in row[2:]))
    return difference(evidence.statement, ours, Answer(columns, full)) is None


def is_part(other: re.Match[str], call: re.Match[str]) -> bool:
    """Return whether a call has some of the series of another one."""
    fewer, inputs = set(SERIES.findall(other[2])), set(SERIES.findall(call[2]))
    return other[1] == call[1] and other[3] == call[3] and fewer < inputs


def estimates_within_error(evidence: Evidence) -> bool:
    """Return whether the server's estimate of a quantile has a rank that differs from the exact one by the error at most."""
    query = parse(evidence.statement)
    match = ESTIMATE.search(query.items) if query else None
    if query is None or match is None:
        return False
    attributes = dict(re.findall(r"'(\w+)'='([^']*)'", match[0]))
    where = f" where {query.where}" if query.where else ""
    estimates, rows = (evidence.ask(f"select {item} from {query.paths}{where}") for item in (match[0], match[2]))
    if not isinstance(estimates, Answer) or not isinstance(rows, Answer) or len(estimates.rows) != 1:
        return False
    values = sorted(float(str(value)) for _, value in rows.rows if value is not None and not is_nan(value))
    estimate, rank = float(str(estimates.rows[0][1])), float(attributes.get("rank", "0.5")) * (len(values) - 1)
    ranks = [at for at, value in enumerate(values) if math.isclose(value, estimate, rel_tol=1e-6, abs_tol=1e-9)]
    return any(abs(at - rank) <= float(attributes.get("error", "0")) * len(values) + 1 for at in ranks)
