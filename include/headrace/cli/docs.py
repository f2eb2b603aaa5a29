"""`headrace docs`: the reference pages that are made from code, so that they cannot drift from it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace import errors
from headrace.cli.console import out
from headrace.cli.options import example

if TYPE_CHECKING:
    from headrace.compute.functions.aggregates import AggregateFunction
    from headrace.compute.functions.scalars import ScalarFunction
    from headrace.compute.functions.series import SeriesFunction

NOTICE: Final = "<!-- Made by `make docs` from {source}: change it there. -->"
# What follows from an error, by its family.
BASES: Final = {errors.TerminalError: "a person has to act", errors.TransientError: "trying again may succeed"}


def register(app: typer.Typer) -> None:
    """Adds the command to an application."""
    app.command(epilog=example("headrace docs --write docs/reference"))(docs)


def docs(
    write: Annotated[Path, typer.Option("--write", file_okay=False, help="Folder that takes the pages.")],
) -> None:
    """Write the reference pages that are made from code: settings, types, functions, errors."""
    write.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (write / name).write_text(page())
        out.print(f"{write / name}", highlight=False, soft_wrap=True)


def settings_page() -> str:
    """Every setting with its name in the environment, its default and what it is for."""
    from headrace.settings import Settings

    rows = [
        (f"`HEADRACE_{name.upper()}`", default_of(name, field.get_default()), field.description or "")
        for name, field in Settings.model_fields.items()
    ]
    return page(
        "Settings",
        "`include/headrace/settings.py`",
        "Set them in the environment. `headrace config` prints each value and where it came from. `--home` on the command line "
        "replaces `HEADRACE_HOME`.",
        table(("variable", "default", "what it is"), rows),
    )


def default_of(name: str, value: object) -> str:
    """A default as shown; the project's folder depends on where the package is installed."""
    if name == "project":
        return "the checkout"
    return f"`{value}`" if str(value) else "empty"


def types_page() -> str:
    """Every type of the language, how it is stored, and what Spark and others see."""
    from headrace.storage.types import STORAGE_TYPES

    rows = [(f"`{kind.value}`", f"`{stored.delta}`", stored.note) for kind, stored in STORAGE_TYPES.items() if kind.value != "DATE"]
    return page(
        "Types",
        "the table in `include/headrace/storage/types.py`",
        "Any Delta reader sees the stored type. A value is stored exactly as it was given, or the statement is refused: a number "
        "out of range, a text that is too long or a broken timestamp never gets in changed. A fraction for an integer column and "
        "digits beyond the scale of a `DECIMAL` are rounded, halves away from zero; a `FLOAT` or `DOUBLE` is the nearest of its "
        "kind.",
        table(("type", "stored as", "note"), rows),
        *TYPE_NOTES,
    )


TYPE_NOTES: Final = (
    "`VARCHAR(n)`, `NCHAR(n)`, `VARBINARY(n)`, `GEOMETRY(n)` and `DECIMAL(p[, s])` need their length in a column or tag. "
    "`BINARY(n)` is another word for `VARCHAR(n)`, `INTEGER` for `INT`, `NUMERIC` for `DECIMAL`.",
    "**Timestamps** are written as text (`'2024-05-01 12:00:00.250'`, `'2024-05-01T12:00:00+02:00'`), as a whole number (ticks of "
    "the database's precision since 1970), or as `now`, `today`, `now + 5m`. Text without a zone is read in the database's time "
    "zone, and what is finer than the precision is cut off. The timestamp of a row lies between 1970 and 9999 (2262 where the "
    "precision is `ns`).",
    "**NULL** may stand in any column except those of the key.",
)


def functions_page() -> str:
    """Aggregates and scalar functions, from the tables that the planner reads."""
    from headrace.compute.functions.aggregates import AggregateFunction
    from headrace.compute.functions.series import SeriesFunction
    from headrace.compute.tdengine import TDENGINE
    from headrace.compute.tdengine.scalars import MATH_TABLE
    from headrace.compute.tdengine.scalars_text import TEXT_TABLE
    from headrace.compute.tdengine.scalars_time import TIME_TABLE

    scalars = {"Mathematics": MATH_TABLE, "Text": TEXT_TABLE, "Time": TIME_TABLE}
    return page(
        "Functions",
        "the tables in `include/headrace/compute/tdengine/`",
        "Names are not case-sensitive. A number out of a function's domain, a division by zero and a cast that fails give NULL. "
        "x, y, z, … are the arguments in order; but for the first, those of aggregates are constants.",
        "## Aggregates",
        AGGREGATION,
        "*Picks a row*: plain columns beside it come from the row that it picks. *Memory*: what a stream or a query keeps of a "
        "window, a few numbers (fixed) or all its values (rows).",
        table(
            ("function", "takes", "gives", "in streams", "picks a row", "memory"),
            map(aggregate_row, by_name(TDENGINE.of_kind(AggregateFunction))),
        ),
        "## Neighbours in time",
        NEIGHBOURS,
        table(("function", "takes", "gives"), map(series_row, TDENGINE.of_kind(SeriesFunction))),
        INTERP,
        "The functions below give a value of a row. With an argument that is NULL it is NULL, where nothing else is said.",
        *(
            part
            for title, rules in scalars.items()
            for part in (f"## {title}", table(("function", "gives", "example"), map(scalar_row, rules)))
        ),
        "## Other forms",
        table(("form", "gives"), FORMS),
        "## Pseudo-columns",
        table(("name", "is"), PSEUDO_COLUMNS),
    )


FORMS: Final = (
    (
        "`CAST(x AS type)`",
        "fractions and excess text are cut off, text counts as the number it begins with (or 0), invalid values become NULL",
    ),
    ("`CASE WHEN c THEN x … [ELSE y] END`, `CASE v WHEN w THEN x … END`", "the first branch whose condition holds"),
    ("`NOW`, `NOW()`, `TODAY`, `TODAY()`", "the present, and midnight before it"),
    ("`TIMESTAMP '2024-05-01'`", "a timestamp"),
    ("`x + y`, `x - y`, `x * y`, `x / y`, `x % y`", "DOUBLE; a timestamp and a duration give a timestamp"),
    ("`x & y`, `x \\| y`", "bits of whole numbers"),
    ("`x [NOT] LIKE 'a%'`", "whether text fits a pattern: `%` any characters, `_` one"),
    ("`x MATCH 'a.*'`, `x NMATCH 'a.*'`", "whether a regular expression is found in the text, or not"),
    ("`x [NOT] IN (…)`, `x [NOT] BETWEEN y AND z`, `x IS [NOT] NULL`", "as in SQL"),
    ("`tag->'name'`, `tag CONTAINS 'name'`", "a member of a JSON tag as text, and whether there is one"),
)
PSEUDO_COLUMNS: Final = (
    ("`tbname`", "the name of the row's subtable"),
    ("`_rowts`, `_c0`", "the row's timestamp"),
    ("`_wstart`, `_wend`", "start and end of the window; the end of an `INTERVAL` is exclusive"),
    ("`_wduration`", "length of the window in ticks of the database"),
)


AGGREGATION: Final = (
    "They leave NULL out. Where no value is left they give NULL, where nothing else is said. Rows of one instant come in the order "
    "of their subtables' names, then of the key column. By example: [windows](../windows/README.md), [the rest of "
    "SELECT](../guides/select.md)."
)
NEIGHBOURS: Final = (
    "A value for each row, made from the rows before or after it; only in queries without a window, not in streams. With "
    "`PARTITION BY` each group is for itself."
)
INTERP: Final = (
    "`interp(x[, 1])` gives values at points between rows: the clauses `RANGE(start[, end])` and `EVERY(step)` say where they are, "
    "`FILL(mode)` how they are made. With the option 1 rows without a value do not count. Beside it `_irowts` is the point, and "
    "`_isfilled` whether there was no row. [All modes by example](../windows/interp.md)."
)


def by_name(functions: Iterable[AggregateFunction]) -> list[AggregateFunction]:
    return sorted(functions, key=lambda function: function.name)


def aggregate_row(function: AggregateFunction) -> tuple[str, ...]:
    from headrace.compute.functions.stream_use import StreamUse

    return (
        f"`{function.name}({signature(function.least, function.most)})`",
        kinds(function),
        function.summary,
        "yes" if function.streams is StreamUse.ANY else "no",
        "yes" if function.selects else "",
        "fixed" if function.bounded else "rows",
    )


def series_row(function: SeriesFunction) -> tuple[str, ...]:
    return f"`{function.name}({signature(function.least, function.most)})`", kinds(function), function.summary


def scalar_row(function: ScalarFunction) -> tuple[str, str, str]:
    from headrace.compute.tdengine.examples import EXAMPLES

    call, value = EXAMPLES.get(function.name, ("", ""))
    shown = f"`{call}` is `{value}`" if call else ""
    return f"`{function.name}({signature(function.least, function.most)})`", function.summary, shown


def signature(least: int, most: int | None) -> str:
    """Arguments by letter, those that may be left out in brackets: `x, y[, z]`."""
    letters = "xyzuvw"
    shown = ", ".join(letters[:least])
    extra = 0 if most is None else most - least
    if most is None or least + extra > len(letters):
        return f"{shown}, …" if shown else "…"
    optional = "".join(f"[, {letter}" if shown or number else f"[{letter}" for number, letter in enumerate(letters[least:most]))
    return f"{shown}{optional}{']' * extra}"


def kinds(function: AggregateFunction | SeriesFunction) -> str:
    """What the first argument may be, in words."""
    from headrace.compute.functions.aggregates import ANY, MEASURED, NUMERIC, ORDERED
    from headrace.model.types import TypeKind

    words = {
        ANY: "any",
        MEASURED | {TypeKind.BOOL}: "numbers, timestamps, booleans",
        NUMERIC: "numbers",
        MEASURED: "numbers, timestamps",
        ORDERED: "numbers, text, timestamps, booleans",
        frozenset({TypeKind.TIMESTAMP}): "timestamps",
    }
    return words.get(function.accepts) or ", ".join(sorted(kind.value for kind in function.accepts))


def errors_page() -> str:
    """Every error by code, with its class and what follows from it."""
    rows = [(f"`{kind.code}`", f"`{named(kind)}`", consequence(kind), sentence(kind)) for kind in every_error()]
    return page(
        "Errors",
        "`include/headrace/errors.py` and the rooms' own errors",
        "Every error has a code, a message and mostly a hint; an error in a statement shows the place. All are subclasses of "
        "`headrace.Error`, and of the classes that PEP 249 names. Codes do not change.",
        "A stream that fails is `STOPPED` with one of these codes, or with one of the two below. Where trying again may succeed, "
        "it is tried again by itself; where a person has to act, it waits for `RESUME STREAM` or for its task in Airflow to be "
        "cleared.",
        table(("code", "class", "what follows", "when"), rows),
        "Codes that only a stopped stream has:",
        table(("code", "what follows", "when"), STOPS),
    )


STOPS: Final = (
    ("`DRIVER_LOST`", "trying again may succeed", "The snode's driver has died, does not answer, or has lost its lease."),
    ("`BACKFILL`", "a person has to act", "A chunk of the stream's history could not be computed."),
)


def every_error() -> list[type[errors.Error]]:
    """The errors of all rooms, by code; bases that nothing raises as such are left out."""
    import headrace

    for room in ("model", "sql", "catalog", "storage", "compute", "streams", "runtime", "service"):
        package = importlib.import_module(f"{headrace.__name__}.{room}")
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    return sorted(set(below(errors.Error)) - {errors.DatabaseError, *BASES}, key=lambda kind: kind.code)


def below(kind: type[errors.Error]) -> Iterator[type[errors.Error]]:
    for direct in kind.__subclasses__():
        yield direct
        yield from below(direct)


def named(kind: type[errors.Error]) -> str:
    """Where the class is found: those of PEP 249 in `headrace` itself."""
    import headrace

    return f"headrace.{kind.__name__}" if kind.__name__ in headrace.__all__ else f"{kind.__module__}.{kind.__name__}"


def consequence(kind: type[errors.Error]) -> str:
    return next((words for base, words in BASES.items() if issubclass(kind, base)), "")


def sentence(kind: type[errors.Error]) -> str:
    """The first paragraph of a class's text."""
    text = " ".join((kind.__doc__ or "").partition("\n\n")[0].split()).removeprefix("PEP 249: ")
    return text[:1].upper() + text[1:]


def page(title: str, source: str, *parts: str) -> str:
    """A page of Markdown from its paragraphs."""
    return "\n\n".join((f"# {title}", NOTICE.format(source=source), *parts)) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [" | ".join(head), " | ".join("---" for _ in head), *(" | ".join(row) for row in rows)]
    return "\n".join(f"| {line} |" for line in lines)


PAGES: Final[dict[str, Callable[[], str]]] = {
    "settings.md": settings_page,
    "types.md": types_page,
    "functions.md": functions_page,
    "errors.md": errors_page,
}
