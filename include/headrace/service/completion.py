"""What may follow in a statement that is being written: keywords by the grammar, and names that the user may know of."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

from headrace.errors import Error, SqlSyntaxError
from headrace.service.completion_names import VisibleNames
from headrace.sql import lexical_rules_of, parse
from headrace.sql.lexical_rules import LexicalRules
from headrace.sql.tokens import Token, TokenType, tokenize

MAX_SUGGESTIONS: Final = 100
NO_TOKEN: Final = "§"
"""What no statement has outside of quotes: the parser stops there, and says what it expected."""
WORD: Final = re.compile(r"((?:(?:\w+|`[^`]*`)\.)*)(\w*)$")
"""A name before the cursor: its qualifiers with dots, and the part to complete."""
QUALIFIER: Final = re.compile(r"\w+|`[^`]*`")
OPERATORS: Final = ("AND", "OR", "IN", "IS NULL", "IS NOT NULL", "BETWEEN", "LIKE")
TABLE_FOLLOWS: Final = frozenset(("FROM", "JOIN", "INTO", "DESCRIBE", "DESC", "TABLE", "STABLE"))
PATH: Final = re.compile(r"\broot(?:\.(?:\w+|`[^`]*`))+")
"""A path of a tree without wildcards."""
TREE: Final = "iotdb"
MAX_NAME_LENGTH: Final = 1_000
"""Characters before the cursor in which its name is searched."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What may take the place of the word at the cursor.

    Attributes:
        text: What is written, in quotes if it needs them.
        kind: `keyword`, `function`, `database`, `table`, `column`, `stream` or `node`.
        detail: The type of a column.
    """

    text: str
    kind: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a statement is to be completed.

    Attributes:
        statement: All of it.
        head: What is before the name at the cursor.
        qualifiers: The parts of that name that are complete.
        word: The part to complete.
    """

    statement: str
    head: str
    qualifiers: tuple[str, ...]
    word: str


def complete(text: str, cursor: int, dialect: str, database: str | None, names: VisibleNames) -> tuple[list[Suggestion], int]:
    """Return what may take the place of the word before the cursor, and the length of that word.

    `text` has any number of statements, and `cursor` is an offset in it.
    """
    rules = lexical_rules_of(dialect)
    place = find_place(text, cursor, rules)
    expected = expected_after(place.head, dialect)
    suggest = suggest_paths if dialect == TREE else suggest_tables
    suggestions = chain(suggest(place, expected, database, names), keywords(place, expected))
    fitting = {one.text: one for one in suggestions if fits(one.text, place.word)}
    return list(fitting.values())[:MAX_SUGGESTIONS], len(place.word)


def fits(text: str, word: str) -> bool:
    return text.lstrip("`").lower().startswith(word.lower()) and text != word


def find_place(text: str, cursor: int, rules: LexicalRules) -> Place:
    """Return the place of a cursor in a text."""
    before = text[:cursor]
    spans = rules.statement_spans(before)
    start = spans[-1].start if spans and ";" not in before[spans[-1].end :] else len(before)
    whole = next((span for span in rules.statement_spans(text) if span.start == start), None)
    match = WORD.search(before, max(start, len(before) - MAX_NAME_LENGTH))
    assert match is not None  # it matches nothing too
    qualifiers = tuple(rules.name(part[0]) for part in QUALIFIER.finditer(match[1]))
    return Place("" if whole is None else text[whole.start : whole.end], before[start : match.start()], qualifiers, match[2])


def expected_after(head: str, dialect: str) -> tuple[str, ...]:
    """Return what the grammar expects after the beginning of a statement; nothing within quotes, or after an error."""
    try:
        parse(head + NO_TOKEN, dialect)
    except SqlSyntaxError as error:
        at_end = error.span is not None and error.span.start >= len(head.rstrip())
        return error.expected if at_end else ()
    except Error:
        return ()
    return ()


def keywords(place: Place, expected: Collection[str]) -> Iterator[Suggestion]:
    if not place.qualifiers:
        words = [word for word in expected if word.isupper() and word[0].isalpha()]
        for word in (*words, *(OPERATORS if "an operator" in expected else ())):
            yield Suggestion(word, "keyword")


def expects(what: str, expected: Iterable[str]) -> bool:
    return any(what in one for one in expected if not one.isupper())


def suggest_tables(place: Place, expected: Collection[str], database: str | None, names: VisibleNames) -> Iterator[Suggestion]:
    """Suggest names of databases, tables, columns, streams and functions of the TDengine language."""
    quote = lexical_rules_of("tdengine").name_sql
    if len(place.qualifiers) > 1:
        return
    if expects("a table", expected):
        owner = place.qualifiers[0] if place.qualifiers else database
        tables = () if owner is None else (*names.tables(owner), *names.subtables(owner, place.word))
        yield from (Suggestion(quote(name), "table") for name in tables)
    if expects("a stream", expected):
        owner = place.qualifiers[0] if place.qualifiers else database
        yield from (Suggestion(quote(name), "stream") for name in names.streams(owner or ""))
    if expects("an expression", expected) or expects("column", expected):
        yield from suggest_columns(place, database, names)
    if not place.qualifiers and expects("a database", expected) | expects("a table", expected) | expects("a stream", expected):
        yield from (Suggestion(quote(name), "database") for name in names.databases())


def suggest_columns(place: Place, database: str | None, names: VisibleNames) -> Iterator[Suggestion]:
    """Suggest the columns of the tables that a statement names, and functions."""
    rules = lexical_rules_of("tdengine")
    tables = named_tables(place.statement, rules)
    chosen = {table for alias, table in tables if not place.qualifiers or alias == place.qualifiers[0]}
    for owner, name in sorted(chosen, key=str):
        for column, type_ in names.columns(owner or database or "", name):
            yield Suggestion(rules.name_sql(column), "column", type_)
    if not place.qualifiers:
        yield from (Suggestion(f"{name}(", "function") for name in names.functions("tdengine"))


def named_tables(statement: str, rules: LexicalRules) -> list[tuple[str, tuple[str | None, str]]]:
    """Return the tables that a statement names: the name by which it calls each, and the database, if written, with the table."""
    try:
        tokens = tokenize(statement, rules)
    except Error:
        return []
    following = [number + 1 for number, token in enumerate(tokens[:-1]) if token.word in TABLE_FOLLOWS]
    return [table for number in following for table in table_at(statement, tokens, number, rules)]


def table_at(statement: str, tokens: list[Token], number: int, rules: LexicalRules) -> Iterator[tuple[str, tuple[str | None, str]]]:
    """Yield the table that is named from a token on, if there is one."""

    def name_at(index: int) -> str | None:
        token = tokens[min(index, len(tokens) - 1)]
        is_name = token.kind is TokenType.QUOTED or (token.kind is TokenType.WORD and token.word not in rules.reserved)
        return rules.name(statement[token.start : token.end]) if is_name else None

    first, database = name_at(number), None
    if tokens[min(number + 1, len(tokens) - 1)].word == ".":
        database, first, number = first, name_at(number + 2), number + 2
    if first is None:
        return
    number += 2 if tokens[min(number + 1, len(tokens) - 1)].word == "AS" else 1
    yield name_at(number) or first, (database, first)


def suggest_paths(place: Place, expected: Collection[str], _: str | None, names: VisibleNames) -> Iterator[Suggestion]:
    """Suggest the nodes of paths, measurements and functions of the IoTDB language."""
    quote = lexical_rules_of(TREE).name_sql
    if place.qualifiers:
        if place.qualifiers[0] == "root":
            path = ".".join(("root", *map(quote, place.qualifiers[1:])))
            yield from (Suggestion(quote(name), "node") for name in names.children(path))
        return
    if expects("a path", expected) or expects("an expression", expected):
        yield Suggestion("root", "node")
        yield from (Suggestion(name, "database") for name in names.trees())
    if expects("an expression", expected):
        paths = PATH.findall(place.statement)
        yield from (Suggestion(quote(name), "column") for path in paths[:1] for name in names.children(path))
        yield from (Suggestion(f"{name}(", "function") for name in names.functions(TREE))
