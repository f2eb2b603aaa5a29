"""GROUP BY TAGS: groups of the series with the same values of some tags."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from headrace.model.expressions import Call, ColumnRef, Expression, Literal
from headrace.model.queries import SelectItem
from headrace.model.tree_queries import TreeQuery
from headrace.model.types import BIGINT, DataType
from headrace.sql.iotdb.names import result_name
from headrace.verify.iotdb.aggregates import AGGREGATES, NEED_UNIQUE_INSTANTS
from headrace.verify.iotdb.expansion import PathNames
from headrace.verify.iotdb.sources import Series, TreeSource
from headrace.verify.values import quoted, unsupported

NO_VALUE: Final = "NULL"
"""What the result has for series that lack a tag."""
Key = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class TagGroups:
    """The groups of GROUP BY TAGS, which take the place of devices.

    Attributes:
        keys: The tags.
        values: Their values by the label of each group.
    """

    keys: tuple[str, ...]
    values: Mapping[str, Key]

    @property
    def columns(self) -> list[str]:
        """The columns of the tags."""
        return [f"tag{number}" for number in range(len(self.keys))]

    def columns_sql(self) -> list[str]:
        """Return the columns of the tags as SQL over rows with the label of their group as `_device`."""
        return [f"CASE _device {self._whens(at)} END AS {column}" for at, column in enumerate(self.columns)]

    def _whens(self, at: int) -> str:
        values = {label: key[at] for label, key in self.values.items()}
        return " ".join(
            f"WHEN {quoted(label)} THEN {quoted(NO_VALUE if value is None else value)}" for label, value in values.items()
        )


@dataclass(slots=True)
class TagExpansion:
    """Resolves the paths of a query with GROUP BY TAGS.

    Attributes:
        outputs: The series of each column by path.
        aliases: The names of columns that have an alias.
    """

    query: TreeQuery
    source: TreeSource
    keys: tuple[str, ...]
    outputs: dict[Call, dict[str, Series]] = field(default_factory=dict)
    aliases: dict[Call, str] = field(default_factory=dict)

    def resolve(self) -> None:
        """Find the series of each column: of one function and measurement."""
        names = PathNames(self.source, self.query.prefixes)
        for item in self.query.items:
            call, pattern = _aggregate_of(item.expression)
            for path in names(pattern):
                series = names.series[path]
                output = replace(call, arguments=(ColumnRef(series.name), *call.arguments[1:]))
                self.outputs.setdefault(output, {})[path] = series
                if item.alias is not None:
                    self.aliases[output] = item.alias

    def _key_of(self, series: Series) -> Key:
        tags = series.device.labels_of(series.series.measurement).tags
        return tuple(tags.get(key) for key in self.keys)

    def _label(self, key: Key) -> str:
        return json.dumps(dict(zip(self.keys, key, strict=True)), ensure_ascii=False)

    def groups(self) -> TagGroups:
        """Return the groups of all series."""
        keys = dict.fromkeys(self._key_of(series) for parts in self.outputs.values() for series in parts.values())
        return TagGroups(self.keys, {self._label(key): key for key in keys})

    def absent(self, groups: TagGroups) -> dict[Expression, frozenset[str]]:
        """Return the labels of the groups that have no series of a column, by its expression."""
        present = [{self._label(self._key_of(series)) for series in parts.values()} for parts in self.outputs.values()]
        return {
            item.expression: frozenset(groups.values.keys() - labels) for item, labels in zip(self.items(), present, strict=True)
        }

    def points(self) -> dict[str, dict[str, list[Series]]]:
        """Return the series of each column, named by its position, by group."""
        columns: dict[str, dict[str, list[Series]]] = {}
        for number, (call, parts) in enumerate(self.outputs.items()):
            grouped = columns.setdefault(_column_name(number), {})
            for series in parts.values():
                grouped.setdefault(self._label(self._key_of(series)), []).append(series)
            _check_unique(call, list(grouped.values()))
        return columns

    def types(self) -> dict[str, DataType]:
        """Return the types of the columns, BIGINT of several types."""
        types = [{part.series.type for part in parts.values()} for parts in self.outputs.values()]
        return {_column_name(number): next(iter(own)) if len(own) == 1 else BIGINT for number, own in enumerate(types)}

    def items(self) -> list[SelectItem]:
        """Return the columns, as aggregates of the names in `points`."""
        return [
            SelectItem(
                replace(call, arguments=(ColumnRef(_column_name(number)), *call.arguments[1:])),
                self.aliases.get(call) or result_name(replace(call, spelling=call.function)),
            )
            for number, call in enumerate(self.outputs)
        ]


def _column_name(number: int) -> str:
    return f"column {number}"


def _aggregate_of(node: Expression) -> tuple[Call, ColumnRef]:
    match node:
        case Call(function=function, arguments=(ColumnRef() as path, *rest)) as call if (
            function in AGGREGATES and function != "count_time" and all(isinstance(part, Literal) for part in rest)
        ):
            return call, path
    raise unsupported(f"{result_name(node)} with GROUP BY TAGS")


def _check_unique(call: Call, groups: Sequence[Sequence[Series]]) -> None:
    """Raise `NotSupportedError` for an aggregate that needs one value an instant if a group has several series."""
    if call.function in NEED_UNIQUE_INSTANTS and any(len(parts) > 1 for parts in groups):
        raise unsupported(f"{call.function} with GROUP BY TAGS of several series")
