"""Tab completion of keywords, functions and names in the catalog."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from headrace.cli.shell_dialects import DIALECTS
from headrace.errors import Error
from headrace.pipes.kind import PIPE
from headrace.queries.kind import CONTINUOUS_QUERY
from headrace.sql import lexical_rules_of
from headrace.streams.kind import STREAM

if TYPE_CHECKING:
    from headrace.model.tables import Table
    from headrace.service.session import Session

WORD: Final = re.compile(r"[\w.\\]+")


class SqlCompleter(Completer):
    """Completes the word before the cursor, keywords in its case."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:  # noqa: ARG002
        """Yield the completions of the word before the cursor; called by prompt_toolkit."""
        word = document.get_word_before_cursor(pattern=WORD)
        for candidate in self.find_candidates(word, document.text):
            yield Completion(candidate, start_position=-len(word))

    def find_candidates(self, word: str, text: str) -> list[str]:
        """Return the names that begin with a word, names of the catalog first.

        If the whole input `text` names tables, only their columns are suggested.
        """
        if not word:
            return []
        keywords = (keyword if word[0].isupper() else keyword.lower() for keyword in self.keywords())
        is_tree = self._session.dialect == "iotdb"
        names = [*self.job_names(), *self.paths(word)] if is_tree else self.catalog_names(text)
        candidates = (*names, *function_names(self._session.dialect), *keywords)
        return list(dict.fromkeys(name for name in candidates if name.removeprefix("`").lower().startswith(word.lower())))

    def keywords(self) -> list[str]:
        """Return the dialect's keywords, sorted, in upper case."""
        dialect = self._session.dialect
        return sorted({*lexical_rules_of(dialect).reserved, *DIALECTS[dialect].keywords})

    def paths(self, word: str) -> list[str]:
        """Return the paths of trees that begin with a word, up to the end of their next node."""
        from headrace.model.paths import join_path

        try:
            trees = self._session.context.catalog.trees
            devices = [device for database in trees.databases() for device in trees.all(database)]
        except Error:
            return []
        depth = word.count(".") + 1
        paths = ((*device.nodes, series.measurement) for device in devices for series in device.series)
        return sorted({join_path(path[:depth]) for path in paths if len(path) >= depth})

    def job_names(self) -> list[str]:
        """Return the names of continuous queries and pipes."""
        try:
            jobs = self._session.context.catalog.jobs
            records = [*jobs.all(kind=CONTINUOUS_QUERY), *jobs.all(kind=PIPE)]
        except Error:
            return []
        rules = lexical_rules_of(self._session.dialect)
        return [rules.name_sql(record.definition.name) for record in records]

    def catalog_names(self, text: str) -> list[str]:
        """Return names of tables, streams, columns and databases; columns are those of the tables named in the text, if any."""
        catalog, current = self._session.context.catalog, self._session.database
        try:
            databases = [database.name for database in catalog.databases.all()]
            tables = [table for database in databases for table in catalog.tables.all(database)]
            streams = [record.definition for record in catalog.jobs.all(kind=STREAM)]
        except Error:
            return []
        mentioned = [table for table in tables if re.search(rf"\b{re.escape(table.name)}\b", text)]
        in_current = [table for table in tables if table.database == current]
        names = [(table.database, table.name) for table in tables] + [(stream.database, stream.name) for stream in streams]
        local = [name for database, name in names if database == current]
        return [*local, *column_names(mentioned or in_current), *databases, *(f"{database}.{name}" for database, name in names)]


def column_names(tables: Iterable[Table]) -> list[str]:
    """Return the names of the tables' columns and tags, sorted, each once."""
    return sorted({column.name for table in tables for column in (*table.columns, *table.tags)})


@functools.cache
def function_names(dialect: str) -> tuple[str, ...]:
    """Return the names of all functions and pseudo-columns of a dialect, sorted."""
    from headrace.compute.language import language as find_language

    language = find_language(dialect)
    columns = language.pseudo_columns
    pseudo_columns = (*columns.row_time, columns.series, *columns.window_names, *columns.point_names, language.interpolation)
    return tuple(sorted(name for name in {*language.functions, *language.present, *pseudo_columns} if name))
