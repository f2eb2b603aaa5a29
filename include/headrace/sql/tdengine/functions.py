"""Parsing of CREATE FUNCTION and DROP FUNCTION."""

from __future__ import annotations

from typing import Final

from headrace.errors import LimitError
from headrace.model.functions import MAX_STATE_BYTES
from headrace.model.statements import CreateModuleFunction, DropModuleFunction
from headrace.model.types import FLOATS, INTEGERS, STRINGS, DataType, TypeKind
from headrace.sql.tdengine.tables import TDengineTables
from headrace.sql.tokens import TokenType

OUTPUT_KINDS: Final = (*INTEGERS, *FLOATS, TypeKind.BOOL, TypeKind.TIMESTAMP, *STRINGS)
PYTHON: Final = "python"
LANGUAGE_HINT: Final = "write the function in Python, and LANGUAGE 'Python'"


class TDengineFunctions(TDengineTables):
    """Parses statements about functions. Each method begins after the keywords that identify the statement."""

    def _parse_create_function(self, start: int, *, is_aggregate: bool = False, or_replace: bool = False) -> CreateModuleFunction:
        """Parse `[IF NOT EXISTS] name AS 'file' OUTPUTTYPE type [BUFSIZE n] LANGUAGE 'Python'`."""
        if_not_exists = not or_replace and self._parse_not_exists()
        name = self._parse_identifier("a function")
        self._expect("AS")
        path = self._parse_string("the path of a file in quotes")
        self._expect("OUTPUTTYPE")
        output_type = self._parse_output_type()
        buffer_size = self._parse_buffer_size() if self._accept("BUFSIZE") else 0
        self._parse_language()
        return CreateModuleFunction(
            name, path, output_type, is_aggregate, buffer_size, if_not_exists, or_replace, self._span(start)
        )

    def _parse_output_type(self) -> DataType:
        token = self._token
        type_ = self._parse_column_type()
        if type_.kind not in OUTPUT_KINDS:
            self._fail_invalid(f"{type_.kind} is not a type of function results", token, f"use {', '.join(OUTPUT_KINDS)}")
        return type_

    def _parse_buffer_size(self) -> int:
        start = self._index
        size = self._parse_integer("a number of bytes")
        if size > MAX_STATE_BYTES:
            raise LimitError(f"BUFSIZE is at most {MAX_STATE_BYTES} bytes, got {size}", span=self._span(start), sql=self.text)
        return size

    def _parse_language(self) -> None:
        """Parse `LANGUAGE 'Python'`. Without it, a function is one of C."""
        if not self._accept("LANGUAGE"):
            if self._token.kind is TokenType.END or self._is_at(";"):
                self._fail_unsupported("a function in C", LANGUAGE_HINT)
            self._fail()
        start = self._index
        language = self._parse_string("a language in quotes")
        if language.lower() != PYTHON:
            self._fail_unsupported(f"a function in {language}", LANGUAGE_HINT, self._span(start))

    def _parse_drop_function(self) -> DropModuleFunction:
        if_exists = self._parse_exists()
        start = self._index
        return DropModuleFunction(self._parse_identifier("a function"), if_exists, self._span(start))
