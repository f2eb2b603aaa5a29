"""Completion of keywords, functions, and the names in the catalog."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from prompt_toolkit.completion import CompleteEvent, Completer
from prompt_toolkit.completion import Completion as Choice
from prompt_toolkit.document import Document

from headrace.errors import Error
from headrace.sql import lexis_of

if TYPE_CHECKING:
    from headrace.model.tables import Table
    from headrace.service.session import Session

WORD: Final = re.compile(r"[\w.\\]+")
OTHER_KEYWORDS: Final = (
    *("DATABASE", "DATABASES", "STABLE", "STABLES", "STREAM", "STREAMS", "TABLE", "TABLES", "TAG", "SNODES"),
    *("AT_ONCE", "WINDOW_CLOSE", "MAX_DELAY", "FILL_HISTORY", "IF", "PAUSE", "RESUME", "PRECISION", "TIMEZONE", "UNTREATED"),
)


class Completion(Completer):
    """Completes the word before the cursor, in its case."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Choice]:  # noqa: ARG002
        word = document.get_word_before_cursor(pattern=WORD)
        for choice in self.choices(word, document.text):
            yield Choice(choice, start_position=-len(word))

    def choices(self, word: str, text: str) -> list[str]:
        """What a word may become, names of the catalog first."""
        if not word:
            return []
        keywords = (each if word[0].isupper() else each.lower() for each in self.keywords())
        candidates = (*self.catalog_names(text), *function_names(self._session.dialect), *keywords)
        return list(dict.fromkeys(each for each in candidates if each.lower().startswith(word.lower())))

    def keywords(self) -> list[str]:
        return sorted({*lexis_of(self._session.dialect).reserved, *OTHER_KEYWORDS})

    def catalog_names(self, text: str) -> list[str]:
        """Tables, streams, columns and databases. Columns are those of the tables in the text, if it names any."""
        catalog, current = self._session.context.catalog, self._session.database
        try:
            databases = [each.name for each in catalog.databases.all()]
            tables = [table for database in databases for table in catalog.tables.all(database)]
            streams = [record.definition for record in catalog.jobs.all()]
        except Error:
            return []
        named = [table for table in tables if re.search(rf"\b{re.escape(table.name)}\b", text)]
        within = [table for table in tables if table.database == current]
        names = [(each.database, each.name) for each in tables] + [(each.database, each.name) for each in streams]
        local = [name for database, name in names if database == current]
        return [*local, *column_names(named or within), *databases, *(f"{database}.{name}" for database, name in names)]


def column_names(tables: Iterable[Table]) -> list[str]:
    return sorted({column.name for table in tables for column in (*table.columns, *table.tags)})


@functools.cache
def function_names(dialect: str) -> tuple[str, ...]:
    """Every function and pseudo-column of a language."""
    from headrace.compute.language import language

    spoken = language(dialect)
    columns = spoken.pseudo_columns
    named = (*columns.row_time, columns.series, *columns.of_windows, *columns.of_points, spoken.interpolation)
    return tuple(sorted(name for name in {*spoken.functions, *spoken.present, *named} if name))
