"""Tests of a project: YAML files with rows to write, and rows to expect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from headrace.errors import NotFoundError, ProgrammingError

Row = Sequence[Any]


class Strict(BaseModel):
    """A part of a file, in which misspelled keys are errors."""

    model_config = ConfigDict(extra="forbid")


class Expectation(Strict):
    """A query, and the rows that it returns once all streams have settled."""

    query: str
    rows: list[list[Any]]


class Step(Strict):
    """One of: rows to write by table, statements to run, continuous queries or streams to settle, or an expectation."""

    insert: dict[str, list[dict[str, Any]]] | None = None
    sql: str | None = None
    dialect: str | None = None
    expect: Expectation | None = None

    @model_validator(mode="after")
    def _check_one(self) -> Step:
        if sum(part is not None for part in (self.insert, self.sql, self.expect)) != 1:
            raise ValueError("a step has exactly one of insert, sql and expect")
        return self


class Case(Strict):
    """A test: definitions to apply to an empty home, and steps.

    Attributes:
        name: What is tested.
        definitions: Files and folders, relative to the file of the test.
        now: The time by which `now` and windows that the clock closes are computed; the machine's if it is not given.
        dialect: Language of the definitions and of steps that do not say otherwise.
    """

    name: str
    definitions: list[str] = []
    now: str | None = None
    dialect: str = "tdengine"
    steps: list[Step]


class LocatedCase:
    """A test with its file, and the line of each step."""

    def __init__(self, file: Path, case: Case, lines: Sequence[int]) -> None:
        self.file, self.case, self.lines = file, case, lines

    def place(self, step: int) -> str:
        """Return the file and line of a step."""
        return f"{self.file}:{self.lines[step]}"


def find_cases(path: Path, pattern: str) -> list[LocatedCase]:
    """Return the tests of a file or folder whose names contain a text.

    Raises:
        NotFoundError: There is no such test.
        ProgrammingError: A file is not valid; the message says where.
    """
    files = [path] if path.is_file() else sorted(file for suffix in ("yml", "yaml") for file in path.rglob(f"*.{suffix}"))
    cases = [case for file in files if not is_hidden(file, path) for case in read_cases(file)]
    chosen = [located for located in cases if pattern.lower() in located.case.name.lower()]
    if not chosen:
        hint = "tests are YAML files with `name` and `steps`; see `headrace new`"
        raise NotFoundError(f"{path} has no tests" + (f" whose names contain {pattern!r}" if pattern else ""), hint=hint)
    return chosen


def is_hidden(file: Path, root: Path) -> bool:
    """Return whether a file is in a folder whose name begins with a dot, as workflows of CI are."""
    return any(part.startswith(".") for part in file.relative_to(root).parts)


def read_cases(file: Path) -> Iterator[LocatedCase]:
    """Yield the tests of a file, which has one for each YAML document."""
    text = file.read_text()
    try:
        nodes, documents = list(yaml.compose_all(text)), list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        raise ProgrammingError(f"{file} is not valid YAML: {error}", hint="correct the file") from None
    for node, document in zip(nodes, documents, strict=True):
        try:
            case = Case.model_validate(document)
        except ValidationError as error:
            raise ProgrammingError(f"{file}: {describe(error)}", hint="docs/guides/projects.md describes the format") from None
        yield LocatedCase(file, case, step_lines(node))


def describe(error: ValidationError) -> str:
    """Return where a document is not valid, and why."""
    return "; ".join(f"{'.'.join(map(str, part['loc'])) or 'the file'}: {part['msg']}" for part in error.errors())


def step_lines(document: Any) -> list[int]:
    """Return the line of each step of a document, counted from 1."""
    for key, value in document.value:
        if key.value == "steps":
            return [step.start_mark.line + 1 for step in value.value]
    return []
