"""What the statements about external tables share in both dialects: columns, tags, places and options, parsed and rendered."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from typing import Any, Final

from headrace.model.external_statements import CreateExternalTable, ExternalColumn
from headrace.model.external_tables import TIME_UNITS, ExternalFormat, OnChange
from headrace.model.tables import Name
from headrace.model.types import DataType
from headrace.sql.lexical_rules import LexicalRules
from headrace.sql.render import join_words, parenthesize, text_if
from headrace.sql.types import FormParser

END_OF_ITEM: Final = (",", ")", "FROM")
MIN_CATALOG_NAMES: Final = 3
"""Those of a catalog, a namespace and a table."""
LATER: Final = {
    "FILES": "name their format: USING PARQUET, CSV or NDJSON AT '…'",
    "JSON": "write USING NDJSON AT '…', for files with a JSON object in each line",
}


class ExternalTableParser(FormParser, ABC):
    """Parses what follows the name of an external table."""

    def _parse_external(self, name: Name, *, if_not_exists: bool, has_tags: bool | None = None) -> CreateExternalTable:
        """Parse `(column, …) [TAGS (tag, …) [SERIES (tag, …)]] place [option …]`; None for `has_tags` if there may be tags."""
        columns = self._parse_items(self._parse_external_column)
        tags: tuple[ExternalColumn, ...] = ()
        options: dict[str, Any] = {}
        if has_tags or (has_tags is None and self._is_at("TAGS")):
            self._expect("TAGS")
            tags = self._parse_items(self._parse_external_column)
            start = self._index
            if self._accept("SERIES"):
                series = self._parse_items(lambda: self._parse_external_name("a tag"))
                options = {"series": series, "series_span": self._span(start)}
        options |= {**self._parse_place(), **self._parse_external_options()}
        return CreateExternalTable(name, columns, tags, if_not_exists=if_not_exists, **options)

    def _parse_place(self) -> dict[str, Any]:
        """Parse `USING format AT 'location'`, or `FROM CATALOG catalog.namespace.table`."""
        if self._accept("FROM", "CATALOG"):
            start = self._index
            names = [self._parse_identifier("a catalog")]
            while len(names) < MIN_CATALOG_NAMES or self._is_at("."):
                self._expect(".")
                names.append(self._parse_identifier("a namespace or table"))
            return {"catalog": tuple(names), "format": ExternalFormat.ICEBERG, "location_span": self._span(start)}
        self._expect("USING")
        if self._token.word in LATER:
            self._fail_unsupported(f"USING {self._token.word}", LATER[self._token.word])
        format_ = ExternalFormat(self._expect_one(*ExternalFormat))
        self._expect("AT")
        start = self._index
        location = self._parse_string("a folder or URI in quotes")
        return {"location": location, "format": format_, "location_span": self._span(start)}

    def _parse_external_column(self) -> ExternalColumn:
        start = self._index
        name = self._parse_external_name("a column")
        type_ = None if self._is_at(*END_OF_ITEM) else self._parse_type()
        source: tuple[str, ...] = ()
        if self._accept("FROM"):
            source = (self._parse_external_name("a column of the source"),)
            while self._accept("."):
                source = (*source, self._parse_external_name("a part of the column"))
        return ExternalColumn(name, type_, source, self._span(start))

    def _parse_external_name(self, what: str) -> str:
        """Parse the name of a column or tag."""
        return self._parse_identifier(what)

    def _parse_external_options(self) -> dict[str, Any]:
        """Parse `TIMEZONE 'zone'`, `UNIT 'ms'`, `ON CHANGE RECALCULATE|IGNORE|STOP` and `COMMENT 'text'`, in any order."""
        options: dict[str, Any] = {}
        while True:
            start = self._index
            if "timezone" not in options and self._accept("TIMEZONE"):
                options |= {"timezone": self._parse_string("a time zone"), "time_span": self._span(start)}
            elif "unit" not in options and self._accept("UNIT"):
                options |= {"unit": self._parse_time_unit(), "time_span": self._span(start)}
            elif "on_change" not in options and self._accept("ON", "CHANGE"):
                options["on_change"] = OnChange(self._expect_one(*OnChange))
            elif "comment" not in options and self._accept("COMMENT"):
                options["comment"] = self._parse_string()
            else:
                return options

    def _parse_time_unit(self) -> str:
        token, allowed = self._token, ", ".join(f"'{unit}'" for unit in TIME_UNITS)
        unit = self._parse_string(allowed)
        return unit if unit in TIME_UNITS else self._fail_invalid(f"{unit!r} is no unit of time", token, f"write one of {allowed}")


def external_sql(statement: CreateExternalTable, rules: LexicalRules, type_sql: Callable[[DataType], str]) -> str:
    """Write what follows the name of an external table."""

    def column_sql(column: ExternalColumn) -> str:
        source = ".".join(map(rules.name_sql, column.source))
        type_ = "" if column.type is None else type_sql(column.type)
        return join_words(rules.name_sql(column.name), type_, text_if(source, f"FROM {source}"))

    options = (("TIMEZONE", statement.timezone), ("UNIT", statement.unit), ("COMMENT", statement.comment))
    return join_words(
        parenthesize(map(column_sql, statement.columns)),
        text_if(statement.tags, f"TAGS {parenthesize(map(column_sql, statement.tags))}"),
        text_if(statement.series, f"SERIES {parenthesize(map(rules.name_sql, statement.series))}"),
        place_sql(statement, rules),
        text_if(statement.on_change, f"ON CHANGE {statement.on_change}"),
        *(f"{word} {rules.quote(value)}" for word, value in options if value is not None),
    )


def place_sql(statement: CreateExternalTable, rules: LexicalRules) -> str:
    if statement.catalog:
        return f"FROM CATALOG {'.'.join(map(rules.name_sql, statement.catalog))}"
    return f"USING {statement.format} AT {rules.quote(statement.location)}"
