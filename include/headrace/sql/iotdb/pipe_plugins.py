"""Statements about plugins of pipes in the IoTDB language: parsed and rendered."""

from __future__ import annotations

from headrace.model.pipe_plugin_statements import CreatePipePlugin, DropPipePlugin
from headrace.sql.iotdb.pipes import PipeParser
from headrace.sql.iotdb.render_statements import statement_sql
from headrace.sql.iotdb.words import LEXICAL_RULES
from headrace.sql.render import join_words, text_if


class PipePluginParser(PipeParser):
    """Parses the creation and removal of plugins. Words such as IF may also be names of plugins."""

    def _parse_create_pipe_plugin(self, start: int) -> CreatePipePlugin:
        """Parse `[IF NOT EXISTS] name AS 'class' [USING URI 'uri']`; `start` is the index of CREATE."""
        if_not_exists = self._peek().word == "NOT" and self._parse_not_exists()
        name = self._parse_identifier("a plugin")
        self._expect("AS")
        class_name = self._parse_string("a class, as a string")
        uri = self._parse_string("a URI, as a string") if self._accept("USING", "URI") else None
        return CreatePipePlugin(name, class_name, uri, if_not_exists, self._span(start))

    def _parse_drop_pipe_plugin(self) -> DropPipePlugin:
        """Parse `[IF EXISTS] name`."""
        if_exists = self._accept_exists()
        return DropPipePlugin(self._parse_identifier("a plugin"), if_exists)


@statement_sql.register
def _create_pipe_plugin_sql(statement: CreatePipePlugin) -> str:
    return join_words(
        "CREATE PIPEPLUGIN",
        text_if(statement.if_not_exists, "IF NOT EXISTS"),
        f"{LEXICAL_RULES.name_sql(statement.name)} AS {LEXICAL_RULES.quote(statement.class_name)}",
        "" if statement.uri is None else f"USING URI {LEXICAL_RULES.quote(statement.uri)}",
    )


@statement_sql.register
def _drop_pipe_plugin_sql(statement: DropPipePlugin) -> str:
    return join_words("DROP PIPEPLUGIN", text_if(statement.if_exists, "IF EXISTS"), LEXICAL_RULES.name_sql(statement.name))
