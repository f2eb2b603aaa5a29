"""The parser of databases, series, device templates, TTL, functions and continuous queries of the IoTDB language."""

from __future__ import annotations

from typing import Final, NoReturn

from headrace.errors import NotSupportedError
from headrace.model.paths import PathPattern, join_path, quote_node
from headrace.model.spans import Span
from headrace.model.tables import Name
from headrace.model.tree_statements import (
    INFINITE,
    ActivateTemplate,
    AlterTemplate,
    AlterTimeseries,
    CreateContinuousQuery,
    CreateExternalDatabase,
    CreateFunction,
    CreateTemplate,
    CreateTimeseries,
    CreateTreeDatabase,
    DeactivateTemplate,
    DropTimeseries,
    Properties,
    SetTemplate,
    SetTTL,
    TimeoutPolicy,
    TimeseriesChange,
    TimeseriesSpec,
    TreeStatement,
)
from headrace.model.tree_status import TreeStatus
from headrace.model.tree_types import TREE_TYPES
from headrace.model.trees import TREE_TABLE
from headrace.model.types import DataType
from headrace.sql.external_tables import ExternalTableParser
from headrace.sql.iotdb.queries import TreeQueries
from headrace.sql.iotdb.words import COMPRESSIONS, ENCODINGS
from headrace.sql.queries import Fields
from headrace.sql.tokens import TokenType

NO_INTERVAL: Final = "CQ: At least one of the parameters `every_interval` and `group_by_interval` needs to be specified."
DATABASE_OPTIONS: Final = ("TTL", "TIME_PARTITION_INTERVAL", "SCHEMA_REGION_GROUP_NUM", "DATA_REGION_GROUP_NUM")
TEMPLATE_WORDS: Final = ("SCHEMA", "DEVICE")
COMPRESSION_KEYS: Final = ("COMPRESSOR", "COMPRESSION")
ALIGNED: Final = "create aligned timeseries: property is not supported yet."
TEMPLATE: Final = "Device Template: {} is not supported yet."


class SchemaParser(TreeQueries, ExternalTableParser):
    """Parses statements that define something. Each method starts after the keywords that identify its statement."""

    # Databases

    def _parse_create_database(self) -> CreateTreeDatabase:
        path = self._parse_pattern()
        return CreateTreeDatabase(path, self._parse_database_ttl())

    def _parse_create_external(self) -> CreateExternalDatabase:
        """Parse `[IF NOT EXISTS] path …`."""
        if_not_exists = self._parse_not_exists()
        path = self._parse_pattern()
        name = Name(join_path(path.nodes), TREE_TABLE, path.span)
        return CreateExternalDatabase(path, self._parse_external(name, if_not_exists=if_not_exists))

    def _parse_external_name(self, what: str) -> str:
        """Parse the name of a column or tag, which may be `time`."""
        if not self._is_at("TIME", "TIMESTAMP"):
            return self._parse_identifier(what)
        token = self._advance()
        return self.text[token.start : token.end]

    def _parse_database_ttl(self) -> int | None:
        """Parse `[WITH TTL = ms, …]`. The other options configure IoTDB's files and have no effect here."""
        ttl = None
        if not self._accept("WITH"):
            return ttl
        while True:
            option = self._expect_one(*DATABASE_OPTIONS)
            self._expect_one("=", "==")
            value = self._parse_int64("a whole number")
            ttl = value if option == "TTL" else ttl
            if not self._accept(",") and self._token.word not in DATABASE_OPTIONS:
                return ttl

    def _parse_alter_database(self) -> NoReturn:
        """Refuse ALTER DATABASE, as IoTDB does for a TTL; its other options have no effect here."""
        path = self._parse_pattern()
        start = self._index
        if not self._is_at("WITH"):
            self._fail()
        ttl = self._parse_database_ttl()
        what, hint = (
            ("these options", "leave it out: they have no effect here")
            if ttl is None
            else ("TTL", f"write SET TTL TO {path} {ttl}")
        )
        message = f"Failed to alter database. Doesn't support ALTER {what} yet."
        error = NotSupportedError(message, hint=hint, span=self._span(start), sql=self.text)
        raise error.with_status(TreeStatus.DATABASE_CONFIG_ERROR)

    # Series

    def _parse_create_timeseries(self) -> TreeStatement:
        """Parse the creation of one series, or of those of a device template."""
        if self._token.word in ("OF", "USING"):
            self._advance()
            self._expect_template()
            self._expect("ON")
            return ActivateTemplate(self._parse_pattern())
        start = self._index
        path = self._parse_path()
        if len(path.nodes) < 2:
            self._semantic("root is not a legal path", path.span, hint="write root.database.device.measurement")
        spec = self._parse_spec(path.nodes[-1], start)
        return CreateTimeseries(PathPattern(path.nodes[:-1], path.span), (spec,))

    def _parse_create_aligned(self) -> CreateTimeseries:
        self._expect("TIMESERIES")
        device = self._parse_path()
        series = self._parse_items(lambda: self._parse_measurement(ALIGNED))
        return CreateTimeseries(device, series, aligned=True)

    def _parse_measurement(self, refusal: str) -> TimeseriesSpec:
        """Parse `name type …` of an aligned device."""
        start = self._index
        spec = self._parse_spec(self._parse_plain_node(), start)
        if spec.properties:
            self._semantic(refusal, spec.span, hint=f"leave {spec.properties[0][0]} out")
        return spec

    def _parse_spec(self, measurement: str, start: int) -> TimeseriesSpec:
        """Parse `[(alias)] [WITH] [DATATYPE =] type [key = value] … [TAGS(…)] [ATTRIBUTES(…)]`."""
        alias = self._parse_parenthesized(self._parse_plain_node) if self._is_at("(") else None
        self._accept("WITH")
        type_ = self._parse_declared_type()
        stored = self._parse_stored()
        tags = self._parse_map("TAGS")
        attributes = self._parse_map("ATTRIBUTES")
        span = self._span(start)
        self._check_map((*tags, *attributes), span)
        others = tuple((key, value) for key, value in stored if key not in ("ENCODING", *COMPRESSION_KEYS))
        return TimeseriesSpec(
            measurement,
            type_,
            self._stored_name(stored, ("ENCODING",), ENCODINGS, "encoding", span),
            self._stored_name(stored, COMPRESSION_KEYS, COMPRESSIONS, "compression", span),
            alias,
            tags,
            attributes,
            others,
            span,
        )

    def _parse_declared_type(self) -> DataType:
        token = self._token
        if self._peek().word in ("=", "=="):
            if token.word != "DATATYPE":
                self._semantic("Expecting datatype", token, hint="name the type first: DATATYPE=INT32")
            self._advance()
            self._advance()
        elif token.word not in TREE_TYPES:
            self._expected.extend(TREE_TYPES)
        return self._parse_type()

    def _parse_stored(self) -> Properties:
        """Parse storage properties `key = value`, with or without commas; keys become upper case."""
        pairs: list[tuple[str, str]] = []
        while self._at_property():
            self._accept(",")
            key, value = self._parse_property()
            pairs.append((key.upper(), value))
        return tuple(pairs)

    def _at_property(self) -> bool:
        """Return whether a property follows; a comma may also separate the measurements of a device."""
        ahead = 1 if self._token.word == "," else 0
        return self._peek(ahead).kind is not TokenType.SYMBOL and self._peek(ahead + 1).word in ("=", "==")

    def _stored_name(self, stored: Properties, keys: tuple[str, ...], names: frozenset[str], what: str, span: Span) -> str | None:
        value = next((value.upper() for key, value in stored if key in keys), None)
        if value is not None and value not in names:
            self._semantic(f"Unsupported {what}: {value}", span, hint=f"use one of {', '.join(sorted(names))}")
        return value

    def _parse_map(self, word: str) -> Properties:
        """Parse `[TAGS(key = value, …)]`, or ATTRIBUTES."""
        return self._parse_parenthesized(self._parse_pairs) if self._accept(word) else ()

    def _parse_pairs(self) -> Properties:
        start = self._index
        pairs = self._parse_list(self._parse_property)
        self._check_map(pairs, self._span(start))
        return pairs

    def _check_map(self, pairs: Properties, span: Span) -> None:
        keys = [key for key, _ in pairs]
        duplicate = next((key for at, key in enumerate(keys) if key in keys[:at]), None)
        if duplicate is not None:
            self._semantic(f"There's duplicate [{duplicate}] in tag or attribute clause.", span, hint="give it one value")

    def _parse_drop_timeseries(self) -> DropTimeseries | DeactivateTemplate:
        if self._token.word == "OF":
            self._advance()
            return self._parse_deactivate()
        return DropTimeseries(self._parse_patterns())

    def _parse_alter_timeseries(self) -> AlterTimeseries:
        path = self._parse_path()
        match self._expect_one("RENAME", "SET", "DROP", "ADD", "UPSERT"):
            case "RENAME":
                before = self._parse_key()
                self._expect("TO")
                return AlterTimeseries(path, TimeseriesChange.RENAME, (before, self._parse_key()))
            case "SET":
                return AlterTimeseries(path, TimeseriesChange.SET, tags=self._parse_pairs())
            case "DROP":
                return AlterTimeseries(path, TimeseriesChange.DROP, self._parse_list(self._parse_key))
            case "ADD":
                return self._parse_add(path)
        return self._parse_upsert(path)

    def _parse_add(self, path: PathPattern) -> AlterTimeseries:
        if self._expect_one("TAGS", "ATTRIBUTES") == "TAGS":
            return AlterTimeseries(path, TimeseriesChange.ADD_TAGS, tags=self._parse_pairs())
        return AlterTimeseries(path, TimeseriesChange.ADD_ATTRIBUTES, attributes=self._parse_pairs())

    def _parse_upsert(self, path: PathPattern) -> AlterTimeseries:
        """Parse `[ALIAS = name] [TAGS(…)] [ATTRIBUTES(…)]` after UPSERT."""
        alias = None
        if self._accept("ALIAS"):
            self._expect_one("=", "==")
            alias = quote_node(self._parse_constant_text("an alias"))
        tags, attributes = self._parse_map("TAGS"), self._parse_map("ATTRIBUTES")
        return AlterTimeseries(path, TimeseriesChange.UPSERT, (), tags, attributes, alias)

    # Device templates

    def _expect_template(self) -> None:
        self._expect_one(*TEMPLATE_WORDS)
        self._expect("TEMPLATE")

    def _parse_template_name(self) -> str:
        return self._parse_identifier("a device template")

    def _parse_create_template(self) -> CreateTemplate:
        self._expect("TEMPLATE")
        name = self._parse_template_name()
        aligned = self._accept("ALIGNED")
        series = self._parse_template_series() if self._is_at("(") else ()
        return CreateTemplate(name, series, aligned)

    def _parse_template_series(self) -> tuple[TimeseriesSpec, ...]:
        return self._parse_items(self._parse_template_measurement)

    def _parse_template_measurement(self) -> TimeseriesSpec:
        spec = self._parse_measurement(TEMPLATE.format("property"))
        refused = {"alias": spec.alias, "tag": spec.tags, "attribute": spec.attributes}
        for what, value in refused.items():
            if value:
                self._semantic(TEMPLATE.format(what), spec.span, hint="set it with ALTER TIMESERIES … UPSERT")
        return spec

    def _parse_alter_template(self) -> AlterTemplate:
        self._expect("TEMPLATE")
        name = self._parse_template_name()
        self._expect("ADD")
        return AlterTemplate(name, self._parse_template_series())

    def _parse_set_template(self, word: str, unset: bool) -> SetTemplate:
        """Parse `TEMPLATE name TO path` after `SET DEVICE`."""
        self._expect("TEMPLATE")
        name = self._parse_template_name()
        self._expect(word)
        return SetTemplate(name, self._parse_pattern(), unset)

    def _parse_deactivate(self) -> DeactivateTemplate:
        self._expect_template()
        has_no_name = self._token.word == "FROM" and self._peek().word == "ROOT"
        name = None if has_no_name else self._parse_template_name()
        self._expect("FROM")
        return DeactivateTemplate(self._parse_patterns(), name)

    # TTL

    def _parse_set(self) -> TreeStatement:
        what = self._expect_one("TTL", "STORAGE", *TEMPLATE_WORDS)
        if what in TEMPLATE_WORDS:
            return self._parse_set_template("TO", unset=False)
        if what == "STORAGE":
            self._expect("GROUP", "TO")
            return self._parse_create_database()
        self._expect("TO")
        path = self._parse_pattern()
        return SetTTL(path, INFINITE if self._accept("INF") else self._parse_int64("milliseconds or INF"))

    def _parse_unset(self) -> TreeStatement:
        if self._expect_one("TTL", *TEMPLATE_WORDS) != "TTL":
            return self._parse_set_template("FROM", unset=True)
        self._expect_one("FROM", "TO")
        return SetTTL(self._parse_pattern(), None)

    # Functions and continuous queries

    def _parse_create_function(self) -> CreateFunction:
        start = self._index
        name = self._parse_identifier("a function")
        class_name, uri = self._parse_class()
        return CreateFunction(name, class_name, uri, self._span(start))

    def _parse_class(self) -> tuple[str, str | None]:
        """Parse `AS 'class' [USING URI 'uri']`."""
        self._expect("AS")
        class_name = self._parse_string("a class, as a string")
        return class_name, self._parse_string("a URI, as a string") if self._accept("USING", "URI") else None

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
            if self._accept(","):
                fields["end_offset"] = self._parse_duration_parts()
        return fields

    def _parse_query_name(self) -> str:
        if self._expect_one("CONTINUOUS", "CQ") == "CONTINUOUS":
            self._expect("QUERY")
        return self._parse_identifier("a continuous query")
