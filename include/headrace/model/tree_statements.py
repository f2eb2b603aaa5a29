"""Statements over a tree of devices, before paths are resolved."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from headrace.model.expressions import Expression, Scalar
from headrace.model.external_statements import CreateExternalTable
from headrace.model.paths import PathPattern
from headrace.model.pipes import PipeStage
from headrace.model.spans import Span
from headrace.model.tree_queries import CompoundDuration, TreeQuery
from headrace.model.triggers import TriggerEvent, TriggerType
from headrace.model.types import DataType
from headrace.model.values import Now, Statement

Properties = tuple[tuple[str, str], ...]


class TreeStatement(Statement):
    """A statement of the IoTDB language."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class CreateTreeDatabase(TreeStatement):
    """`CREATE DATABASE path [WITH TTL=ms]`, `SET STORAGE GROUP TO path`."""

    path: PathPattern
    ttl_ms: int | None = None


@dataclass(frozen=True, slots=True)
class CreateExternalDatabase(TreeStatement):
    """`CREATE EXTERNAL DATABASE path …`: a database whose only table, `TREE_TABLE`, is external."""

    path: PathPattern
    table: CreateExternalTable


@dataclass(frozen=True, slots=True)
class DropTreeDatabases(TreeStatement):
    """`DELETE DATABASE pattern, …`."""

    patterns: tuple[PathPattern, ...]


@dataclass(frozen=True, slots=True)
class TimeseriesSpec:
    """One series of CREATE TIMESERIES; `properties` are those that say how IoTDB stores it beside encoding and compression."""

    measurement: str
    type: DataType
    encoding: str | None = None
    compression: str | None = None
    alias: str | None = None
    tags: Properties = ()
    attributes: Properties = ()
    properties: Properties = ()
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class CreateTimeseries(TreeStatement):
    """`CREATE TIMESERIES` (one series) and `CREATE ALIGNED TIMESERIES` (all series of a device)."""

    device: PathPattern
    series: tuple[TimeseriesSpec, ...]
    aligned: bool = False


@dataclass(frozen=True, slots=True)
class DropTimeseries(TreeStatement):
    """`DELETE TIMESERIES pattern, …`."""

    patterns: tuple[PathPattern, ...]


class TimeseriesChange(StrEnum):
    """What ALTER TIMESERIES does with tags and attributes."""

    RENAME = "rename"
    SET = "set"
    DROP = "drop"
    ADD_TAGS = "add tags"
    ADD_ATTRIBUTES = "add attributes"
    UPSERT = "upsert"


@dataclass(frozen=True, slots=True)
class AlterTimeseries(TreeStatement):
    """`ALTER TIMESERIES path …`.

    `names` are old and new one of RENAME, or the keys of DROP; `tags` and `attributes` those of SET (as tags), ADD and UPSERT.
    """

    path: PathPattern
    change: TimeseriesChange
    names: tuple[str, ...] = ()
    tags: Properties = ()
    attributes: Properties = ()
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class TreeInsert(TreeStatement):
    """`INSERT INTO device(time, m, …) [ALIGNED] VALUES (…), …`.

    Attributes:
        times: One for each row: ticks, the text of an instant, or `now()`; None if the statement has no time column.
        rows: Constants as written, without the time; text stays text until the series' type is known, and so do instants.
    """

    device: PathPattern
    measurements: tuple[str, ...]
    times: tuple[int | str | Now | None, ...]
    rows: tuple[tuple[Scalar | Now, ...], ...]
    aligned: bool = False
    span: Span | None = field(default=None, compare=False)
    row_spans: tuple[Span, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class TreeDelete(TreeStatement):
    """`DELETE FROM pattern, … [WHERE time …]`."""

    patterns: tuple[PathPattern, ...]
    where: Expression | None = None


INFINITE: Final = 2**63 - 1
"""A time to live without limit. A path that has it is not subject to that of another path."""


@dataclass(frozen=True, slots=True)
class SetTTL(TreeStatement):
    """`SET TTL TO path ms|INF`, whose `ttl_ms` is `INFINITE` for no limit, and `UNSET TTL FROM path`, whose `ttl_ms` is None."""

    path: PathPattern
    ttl_ms: int | None


@dataclass(frozen=True, slots=True)
class TreeSelect(TreeStatement):
    """A query as a statement."""

    query: TreeQuery


@dataclass(frozen=True, slots=True)
class TreeShow(TreeStatement):
    """`SHOW` and `COUNT` of the tree.

    Attributes:
        what: `databases`, `devices`, `timeseries`, `latest timeseries`, `child paths`, `child nodes`, `ttl`, `all ttl`,
            `functions`, `triggers`, `current_timestamp`, `continuous queries`, `cq executions`, `device templates`,
            `nodes in template`, `paths set template`, `paths using template`, `pipe`, `pipes`, `pipeplugins`, `queries`, `version`,
            `count databases`, `count devices`, `count timeseries`, `count nodes`.
        where: What is looked at (`timeseries`, `device`, `tag`, `datatype`, `template`, `sink`), the tag's key or nothing, the
            operator (`=`, `<>`, `contains`, `is null`, `is not null`, `used by`), and the value.
        time: The condition on time of DEVICES and TIMESERIES: those that have such rows.
        level: Of COUNT … GROUP BY LEVEL and of COUNT NODES … LEVEL.
        details: Of SHOW DATABASES DETAILS and SHOW TRIGGERS DETAILS.
        name: Of a template or pipe, or of the continuous query whose executions are shown.
    """

    what: str
    patterns: tuple[PathPattern, ...] = ()
    where: tuple[str, str, str, str] | None = None
    time: Expression | None = None
    level: int | None = None
    with_database: bool = False
    details: bool = False
    limit: int | None = None
    offset: int | None = None
    name: str | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class CreateTemplate(TreeStatement):
    """`CREATE DEVICE TEMPLATE name [ALIGNED] (m type …, …)`."""

    name: str
    series: tuple[TimeseriesSpec, ...]
    aligned: bool = False


@dataclass(frozen=True, slots=True)
class NamedStatement(TreeStatement):
    """A statement about what has a name."""

    name: str


class DropTemplate(NamedStatement):
    """`DROP DEVICE TEMPLATE name`."""


@dataclass(frozen=True, slots=True)
class SetTemplate(TreeStatement):
    """`SET DEVICE TEMPLATE name TO path`, or UNSET … FROM."""

    name: str
    path: PathPattern
    unset: bool = False


@dataclass(frozen=True, slots=True)
class AlterTemplate(TreeStatement):
    """`ALTER DEVICE TEMPLATE name ADD (m type …, …)`."""

    name: str
    series: tuple[TimeseriesSpec, ...]


@dataclass(frozen=True, slots=True)
class ActivateTemplate(TreeStatement):
    """`CREATE TIMESERIES USING DEVICE TEMPLATE ON path`."""

    path: PathPattern


@dataclass(frozen=True, slots=True)
class DeactivateTemplate(TreeStatement):
    """`DEACTIVATE DEVICE TEMPLATE [name] FROM pattern, …`, `DELETE TIMESERIES OF DEVICE TEMPLATE …`."""

    patterns: tuple[PathPattern, ...]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class CreateFunction(TreeStatement):
    """`CREATE FUNCTION name AS 'class' [USING URI 'uri']`."""

    name: str
    class_name: str
    uri: str | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class KillQueries(TreeStatement):
    """`KILL QUERY 'id'`, with an id of SHOW QUERIES, or `KILL ALL QUERIES`, with the id None."""

    id: str | None = None


class DropFunction(NamedStatement):
    """`DROP FUNCTION name`."""


@dataclass(frozen=True, slots=True)
class CreateTrigger(TreeStatement):
    """`CREATE STATELESS|STATEFUL TRIGGER name BEFORE|AFTER INSERT ON pattern AS 'class' [USING URI 'uri'] [WITH (k = v, …)]`."""

    name: str
    type: TriggerType
    event: TriggerEvent
    pattern: PathPattern
    class_name: str
    uri: str | None = None
    attributes: Properties = ()
    span: Span | None = field(default=None, compare=False)


class DropTrigger(NamedStatement):
    """`DROP TRIGGER name`."""


class StartTrigger(NamedStatement):
    """`START TRIGGER name`."""


class StopTrigger(NamedStatement):
    """`STOP TRIGGER name`."""


class TimeoutPolicy(StrEnum):
    """What happens to intervals that fall due while a run is still at work."""

    BLOCKED = "BLOCKED"
    DISCARD = "DISCARD"


@dataclass(frozen=True, slots=True)
class CreateContinuousQuery(TreeStatement):
    """`CREATE CONTINUOUS QUERY`, as written; `text` is the statement, `body` its SELECT."""

    name: str
    query: TreeQuery
    every: CompoundDuration | None = None
    boundary: Expression | None = None
    start_offset: CompoundDuration | None = None
    end_offset: CompoundDuration | None = None
    policy: TimeoutPolicy = TimeoutPolicy.BLOCKED
    text: str = field(default="", compare=False)
    body: str = field(default="", compare=False)


class DropContinuousQuery(NamedStatement):
    """`DROP CONTINUOUS QUERY name`."""


class PauseContinuousQuery(NamedStatement):
    """`PAUSE CONTINUOUS QUERY name`, which IoTDB does not have."""


class ResumeContinuousQuery(NamedStatement):
    """`RESUME CONTINUOUS QUERY name`, which IoTDB does not have."""


@dataclass(frozen=True, slots=True)
class CreatePipe(TreeStatement):
    """`CREATE PIPE [IF NOT EXISTS] name [WITH SOURCE (k = v, …)] [WITH PROCESSOR (…)] WITH SINK (…)`. Keys are distinct."""

    name: str
    source: Properties = ()
    processor: Properties = ()
    sink: Properties = ()
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class StageChange:
    """`MODIFY stage (k = v, …)`, which adds to the attributes of a stage, or `REPLACE stage (…)`. Keys are distinct."""

    stage: PipeStage
    attributes: Properties
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class AlterPipe(TreeStatement):
    """`ALTER PIPE [IF EXISTS] name …`, with at most one change of each stage, in the order of the stages."""

    name: str
    changes: tuple[StageChange, ...] = ()
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropPipe(TreeStatement):
    """`DROP PIPE [IF EXISTS] name`."""

    name: str
    if_exists: bool = False


class StartPipe(NamedStatement):
    """`START PIPE name`."""


class StopPipe(NamedStatement):
    """`STOP PIPE name`."""
