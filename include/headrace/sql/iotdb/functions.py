"""The parser of user-defined functions and continuous queries of the IoTDB language."""

from __future__ import annotations

from typing import Final

from headrace.model.tree_queries import CompoundDuration
from headrace.model.tree_statements import (
    CreateContinuousQuery,
    CreateFunction,
    DropContinuousQuery,
    DropFunction,
    TimeoutPolicy,
)
from headrace.sql.iotdb.schema import SchemaParser
from headrace.sql.queries import Fields

NO_INTERVAL: Final = "CQ: At least one of the parameters `every_interval` and `group_by_interval` needs to be specified."


class FunctionParser(SchemaParser):
    """Parses statements that register code or queries. Each method starts after the keywords that identify its statement."""

    def _parse_create_function(self) -> CreateFunction:
        start = self._index
        name = self._parse_identifier("a function")
        self._expect("AS")
        class_name = self._parse_string("a class, as a string")
        uri = self._parse_string("a URI, as a string") if self._accept("USING", "URI") else None
        return CreateFunction(name, class_name, uri, self._span(start))

    def _parse_drop_function(self) -> DropFunction:
        return DropFunction(self._parse_identifier("a function"))

    # Continuous queries

    def _parse_create_query(self, start: int) -> CreateContinuousQuery:
        """Parse `name [RESAMPLE …] [TIMEOUT POLICY …] BEGIN select END`; `start` is the index of CREATE."""
        name = self._parse_identifier("a continuous query")
        fields = self._parse_resample() if self._accept("RESAMPLE") else {}
        if self._accept("TIMEOUT", "POLICY"):
            fields["policy"] = TimeoutPolicy(self._expect_one(*TimeoutPolicy))
        self._expect("BEGIN")
        begin = self._index
        query = self._parse_tree_query()
        body = self._text_since(begin)
        self._expect("END")
        has_interval = query.grouping is not None and query.grouping.time is not None
        if "every" not in fields and not has_interval:
            self._semantic(NO_INTERVAL, self._span(start), hint="write RESAMPLE EVERY 1m, or GROUP BY (1m) in the query")
        return CreateContinuousQuery(name, query, text=self._text_since(start), body=body, **fields)

    def _parse_resample(self) -> Fields:
        """Parse `[EVERY d] [BOUNDARY instant] [RANGE d [, d]]`."""
        fields: Fields = {}
        if self._accept("EVERY"):
            fields["every"] = self._parse_duration_parts()
        if self._accept("BOUNDARY"):
            fields["boundary"] = self._parse_time_value()
        if self._accept("RANGE"):
            fields["start_offset"] = self._parse_duration_parts()
            fields |= self._parse_range_end()
        return fields

    def _parse_range_end(self) -> dict[str, CompoundDuration]:
        return {"end_offset": self._parse_duration_parts()} if self._accept(",") else {}

    def _parse_query_name(self) -> str:
        if self._expect_one("CONTINUOUS", "CQ") == "CONTINUOUS":
            self._expect("QUERY")
        return self._parse_identifier("a continuous query")

    def _parse_drop_query(self) -> DropContinuousQuery:
        return DropContinuousQuery(self._parse_identifier("a continuous query"))
