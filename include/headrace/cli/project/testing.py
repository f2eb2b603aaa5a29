"""`headrace test`: runs the tests of a project, each in an empty home of its own."""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from xml.etree import ElementTree

import typer

from headrace.cli.console import out
from headrace.cli.project.cases import Expectation, LocatedCase, Step, find_cases
from headrace.cli.project.changes import plan_changes
from headrace.cli.project.command import EFFECTIVE, run_change
from headrace.cli.project.definitions import read_definitions
from headrace.errors import Error, ProgrammingError
from headrace.model.clock import Clock, ManualClock, SystemClock
from headrace.model.instants import parse_instant
from headrace.model.time import Precision

if TYPE_CHECKING:
    from headrace.service.connection import Connection

TOLERANCE: Final = 1e-9
MISSING: Final = object()


@dataclass(frozen=True)
class Outcome:
    """What became of a test; `failure` is empty if it passed."""

    name: str
    file: str
    seconds: float
    failure: str = ""


TestPath = Annotated[Path, typer.Argument(exists=True, help="A YAML file, or a folder of such files. Default: this folder.")]
Pattern = Annotated[str, typer.Option("-k", help="Run only tests whose names contain this.")]
Junit = Annotated[Path | None, typer.Option("--junit", help="Also write the outcomes to this file, as JUnit does.")]


def test(path: TestPath = Path(), pattern: Pattern = "", junit: Junit = None) -> None:  # noqa: PT028
    """Run the tests of a project: write rows into an empty home, and compare what streams and queries make of them."""
    outcomes = []
    for located in find_cases(path, pattern):
        outcome = run_case(located)
        outcomes.append(outcome)
        style, word = ("red", "FAILED") if outcome.failure else ("green", "ok")
        out.print(f"[{style}]{word:6}[/] {outcome.name} ({outcome.seconds:.1f} s)", highlight=False)
        if outcome.failure:
            out.print(outcome.failure, highlight=False, markup=False, soft_wrap=True)
    failed = sum(bool(outcome.failure) for outcome in outcomes)
    out.print(f"{len(outcomes) - failed} passed, {failed} failed", highlight=False)
    if junit is not None:
        write_junit(junit, outcomes)
    if failed:
        raise typer.Exit(1)


def run_case(located: LocatedCase) -> Outcome:
    """Run a test in an empty home, which is removed afterwards."""
    start, case = time.monotonic(), located.case
    with tempfile.TemporaryDirectory(prefix="headrace-test-") as home:
        try:
            failure = run_steps(located, Path(home))
        except Error as error:
            failure = f"{located.file}: {error.message}" + (f"\nhint: {error.hint}" if error.hint else "")
    return Outcome(case.name, str(located.file), time.monotonic() - start, failure)


def run_steps(located: LocatedCase, home: Path) -> str:
    """Apply the definitions and run the steps; return how the first failure looks, empty if there is none."""
    from headrace.service.connecting import connect

    clock = clock_of(located.case.now)
    with connect(home, dialect="tdengine", clock=clock) as tables, connect(home, dialect="iotdb", clock=clock) as trees:
        connections = {"tdengine": tables, "iotdb": trees}
        apply_definitions(located, connections)
        for number, step in enumerate(located.case.steps):
            connection = connections[step.dialect or located.case.dialect]
            try:
                failure = run_step(connection, step)
            except Error as error:
                failure = error.message + (f"\nhint: {error.hint}" if error.hint else "")
            if failure:
                return f"{located.place(number)}: {failure}"
    return ""


def clock_of(now: str | None) -> Clock:
    """Return a clock that shows an instant, or the machine's."""
    if now is None:
        return SystemClock()
    instant = parse_instant(now, "UTC", Precision.MILLISECOND)
    if instant is None:
        raise ProgrammingError(f"now: {now!r} is no instant", hint="write for example 2026-01-01 12:00:00")
    return ManualClock(instant)


def apply_definitions(located: LocatedCase, connections: dict[str, Connection]) -> None:
    """Apply the definitions of a test in their order."""
    for name in located.case.definitions:
        definitions = read_definitions((located.file.parent / name).resolve(), located.case.dialect)
        sessions = {dialect: connection.session for dialect, connection in connections.items()}
        for change in plan_changes(sessions, definitions):
            if change.action in EFFECTIVE:
                run_change(sessions, change)


def run_step(connection: Connection, step: Step) -> str:
    """Run a step, and return how it failed; empty if it did not."""
    if step.expect is not None:
        connection.settle()
        found = [tuple(row) for row in connection.execute(step.expect.query).fetchall()]
        return compare(step.expect, found)
    if step.sql is not None:
        from headrace.sql import lexical_rules_of

        for statement in lexical_rules_of(connection.session.dialect).statements(step.sql):
            connection.execute(statement)
    for table, rows in (step.insert or {}).items():
        connection.append([{name: as_instant(value) for name, value in row.items()} for row in rows], table)
    return ""


def as_instant(value: Any) -> Any:
    """Return a date and time of YAML with a time zone: UTC if it has none."""
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    return value


def compare(expected: Expectation, found: Sequence[Sequence[Any]]) -> str:
    """Return the rows that differ, marked as `diff` does; empty if none does."""
    pairs = list(zip_longest(expected.rows, found, fillvalue=MISSING))
    if all(equal_rows(wanted, row) for wanted, row in pairs):
        return ""
    lines = [f"the rows of {expected.query.strip()} differ (- expected, + found)"]
    for wanted, row in pairs:
        if equal_rows(wanted, row):
            lines.append(f"    {text(wanted)}")
            continue
        lines += [f"  - {text(wanted)}"] if wanted is not MISSING else []
        lines += [f"  + {text(row)}"] if row is not MISSING else []
    return "\n".join(lines)


def equal_rows(wanted: Any, row: Any) -> bool:
    if wanted is MISSING or row is MISSING or len(wanted) != len(row):
        return False
    return all(equal_values(one, other) for one, other in zip(wanted, row, strict=True))


def equal_values(wanted: Any, found: Any) -> bool:
    """Return whether a value is the expected one: instants as text in UTC, numbers up to a relative error of `TOLERANCE`."""
    if isinstance(found, datetime):
        return instant_text(as_instant(wanted)) == instant_text(found)
    if isinstance(found, float | Decimal) and isinstance(wanted, int | float) and not isinstance(wanted, bool):
        return math.isclose(wanted, float(found), rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(wanted == found)


def instant_text(value: Any) -> str:
    """Return an instant in UTC, without fractions of a second that are 0."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f").rstrip("0").rstrip(".")
    return str(value)


def text(row: Any) -> str:
    """Return a row as a YAML list."""
    return "[" + ", ".join(instant_text(value) if isinstance(value, datetime) else repr(value) for value in row) + "]"


def write_junit(file: Path, outcomes: Sequence[Outcome]) -> None:
    """Write the outcomes in JUnit's format."""
    failed = sum(bool(outcome.failure) for outcome in outcomes)
    suite = ElementTree.Element("testsuite", name="headrace", tests=str(len(outcomes)), failures=str(failed))
    for outcome in outcomes:
        element = ElementTree.SubElement(
            suite, "testcase", name=outcome.name, classname=outcome.file, time=f"{outcome.seconds:.3f}"
        )
        if outcome.failure:
            ElementTree.SubElement(element, "failure", message=outcome.failure.splitlines()[0]).text = outcome.failure
    ElementTree.ElementTree(suite).write(file, encoding="unicode", xml_declaration=True)
    sys.stderr.flush()
