"""CREATE EXTERNAL STABLE and TABLE: parsed and rendered."""

from __future__ import annotations

from headrace.model.external_statements import CreateExternalTable
from headrace.sql.external_tables import ExternalTableParser, external_sql
from headrace.sql.render import join_words, text_if
from headrace.sql.tdengine.render import name_sql, statement_sql
from headrace.sql.tdengine.virtual_tables import TDengineVirtualTables
from headrace.sql.tdengine.words import LEXICAL_RULES


class TDengineExternalTables(TDengineVirtualTables, ExternalTableParser):
    """Parses CREATE EXTERNAL, after these words."""

    def _parse_create_external(self) -> CreateExternalTable:
        """Parse `STABLE|TABLE [IF NOT EXISTS] name …`."""
        has_tags = self._expect_one("STABLE", "TABLE") == "STABLE"
        if_not_exists = self._parse_not_exists()
        return self._parse_external(self._parse_name("a table"), if_not_exists=if_not_exists, has_tags=has_tags)


@statement_sql.register
def _create_external_table_sql(statement: CreateExternalTable) -> str:
    return join_words(
        f"CREATE EXTERNAL {'STABLE' if statement.tags else 'TABLE'}",
        text_if(statement.if_not_exists, "IF NOT EXISTS"),
        name_sql(statement.name),
        external_sql(statement, LEXICAL_RULES, str),
    )
