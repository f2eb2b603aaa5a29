"""GROUP BY TAGS: groups of the series with the same values of some tags."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from headrace.model.expressions import Call, ColumnRef, Expression, Literal
from headrace.model.queries import SelectItem
from headrace.model.tree_queries import TreeQuery
from headrace.sql.iotdb.names import result_name
from headrace.verify.trees.aggregates import AGGREGATES, NEED_UNIQUE_INSTANTS
from headrace.verify.trees.expansion import PathNames
from headrace.verify.trees.source import Series, TreeSource, text
from headrace.verify.values import unsupported

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

    def values_sql(self) -> list[str]:
        """Return the values of each tag as SQL over rows with the label of their group as `_device`."""
        return [self.value_sql(at) for at in range(len(self.keys))]

    def value_sql(self, at: int) -> str:
        """Return the values of one tag as SQL."""
        values = {label: key[at] for label, key in self.values.items()}
        whens = [f"WHEN {text(label)} THEN {text(NO_VALUE if value is None else value)}" for label, value in values.items()]
        return f"CASE _device {' '.join(whens)} END"


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
            call, pattern = aggregate_of(item.expression)
            for path in names(pattern):
                series = names.series[path]
                output = replace(call, arguments=(ColumnRef(series.name), *call.arguments[1:]))
                self.outputs.setdefault(output, {})[path] = series
                if item.alias is not None:
                    self.aliases[output] = item.alias

    def key_of(self, series: Series) -> Key:
        """Return the values of the tags of one series."""
        tags = series.device.labels_of(series.series.measurement).tags
        return tuple(tags.get(key) for key in self.keys)

    def label(self, key: Key) -> str:
        """Return a text that identifies a group."""
        return json.dumps(dict(zip(self.keys, key, strict=True)), ensure_ascii=False)

    def groups(self) -> TagGroups:
        """Return the groups of all series."""
        keys = dict.fromkeys(self.key_of(series) for parts in self.outputs.values() for series in parts.values())
        return TagGroups(self.keys, {self.label(key): key for key in keys})

    def absent(self, groups: TagGroups) -> dict[Expression, frozenset[str]]:
        """Return the labels of the groups that have no series of a column, by its expression."""
        present = [{self.label(self.key_of(series)) for series in parts.values()} for parts in self.outputs.values()]
        return {
            item.expression: frozenset(groups.values.keys() - labels) for item, labels in zip(self.items(), present, strict=True)
        }

    def points(self) -> dict[str, dict[str, list[Series]]]:
        """Return the series of each column, named by its position, by group."""
        columns: dict[str, dict[str, list[Series]]] = {}
        for number, (call, parts) in enumerate(self.outputs.items()):
            grouped = columns.setdefault(column_name(number), {})
            for series in parts.values():
                grouped.setdefault(self.label(self.key_of(series)), []).append(series)
            check_unique(call, list(grouped.values()))
        return columns

    def items(self) -> list[SelectItem]:
        """Return the columns, as aggregates of the names in `points`."""
        return [
            SelectItem(
                replace(call, arguments=(ColumnRef(column_name(number)), *call.arguments[1:])),
                self.aliases.get(call) or result_name(replace(call, spelling=call.function)),
            )
            for number, call in enumerate(self.outputs)
        ]


def column_name(number: int) -> str:
    """Return the name of the values that a column aggregates."""
    return f"column {number}"


def aggregate_of(node: Expression) -> tuple[Call, ColumnRef]:
    """Return an aggregate of a path, and the path."""
    match node:
        case Call(function=function, arguments=(ColumnRef() as path, *rest)) as call if (
            function in AGGREGATES and function != "count_time" and all(isinstance(part, Literal) for part in rest)
        ):
            return call, path
    raise unsupported(f"{result_name(node)} with GROUP BY TAGS")


def check_unique(call: Call, groups: Sequence[Sequence[Series]]) -> None:
    """Raise `NotSupportedError` for an aggregate that needs one value an instant if a group has several series."""
    if call.function in NEED_UNIQUE_INSTANTS and any(len(parts) > 1 for parts in groups):
        raise unsupported(f"{call.function} with GROUP BY TAGS of several series")
