"""CREATE EXTERNAL STABLE and TABLE: parsed and rendered."""

from __future__ import annotations

from typing import Any, Final

from headrace.model.external_statements import CreateExternalTable, ExternalColumn
from headrace.model.external_tables import TIME_UNITS, ExternalFormat, OnChange
from headrace.sql.render import join_words, parenthesize, text_if
from headrace.sql.tdengine.render import name_sql, statement_sql
from headrace.sql.tdengine.virtual_tables import TDengineVirtualTables
from headrace.sql.tdengine.words import LEXICAL_RULES

END_OF_ITEM: Final = (",", ")", "FROM")
MIN_CATALOG_NAMES: Final = 3
"""Those of a catalog, a namespace and a table."""
LATER: Final = {
    "FILES": "name their format: USING PARQUET, CSV or NDJSON AT '…'",
    "JSON": "write USING NDJSON AT '…', for files with a JSON object in each line",
}


class TDengineExternalTables(TDengineVirtualTables):
    """Parses CREATE EXTERNAL, after these words."""

    def _parse_create_external(self) -> CreateExternalTable:
        """Parse `STABLE|TABLE [IF NOT EXISTS] name (column, …) [TAGS (tag, …) [SERIES (tag, …)]] place [option …]`."""
        has_tags = self._expect_one("STABLE", "TABLE") == "STABLE"
        if_not_exists = self._parse_not_exists()
        name = self._parse_name("a table")
        columns = self._parse_items(self._parse_external_column)
        tags: tuple[ExternalColumn, ...] = ()
        options: dict[str, Any] = {}
        if has_tags:
            self._expect("TAGS")
            tags = self._parse_items(self._parse_external_column)
            start = self._index
            if self._accept("SERIES"):
                options = {"series": self._parse_items(lambda: self._parse_identifier("a tag")), "series_span": self._span(start)}
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
        name = self._parse_identifier("a column")
        type_ = None if self._is_at(*END_OF_ITEM) else self._parse_type()
        source: tuple[str, ...] = ()
        if self._accept("FROM"):
            source = (self._parse_identifier("a column of the source"),)
            while self._accept("."):
                source = (*source, self._parse_identifier("a part of the column"))
        return ExternalColumn(name, type_, source, self._span(start))

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


@statement_sql.register
def _create_external_table_sql(statement: CreateExternalTable) -> str:
    kind = "STABLE" if statement.tags else "TABLE"
    tags = f"TAGS {parenthesize(map(_external_column_sql, statement.tags))}" if statement.tags else ""
    series = f"SERIES {parenthesize(map(LEXICAL_RULES.name_sql, statement.series))}" if statement.series else ""
    options = (("TIMEZONE", statement.timezone), ("UNIT", statement.unit), ("COMMENT", statement.comment))
    return join_words(
        f"CREATE EXTERNAL {kind}",
        text_if(statement.if_not_exists, "IF NOT EXISTS"),
        name_sql(statement.name),
        parenthesize(map(_external_column_sql, statement.columns)),
        tags,
        series,
        _place_sql(statement),
        text_if(statement.on_change, f"ON CHANGE {statement.on_change}"),
        *(f"{word} {LEXICAL_RULES.quote(value)}" for word, value in options if value is not None),
    )


def _place_sql(statement: CreateExternalTable) -> str:
    if statement.catalog:
        return f"FROM CATALOG {'.'.join(map(LEXICAL_RULES.name_sql, statement.catalog))}"
    return f"USING {statement.format} AT {LEXICAL_RULES.quote(statement.location)}"


def _external_column_sql(column: ExternalColumn) -> str:
    source = ".".join(map(LEXICAL_RULES.name_sql, column.source))
    type_ = "" if column.type is None else str(column.type)
    return join_words(LEXICAL_RULES.name_sql(column.name), type_, text_if(source, f"FROM {source}"))
