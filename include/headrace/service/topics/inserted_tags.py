"""Tags among the columns of INSERT INTO supertable, with which subtables that do not exist are created."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.errors import NotSupportedError
from headrace.model.expressions import Scalar
from headrace.model.spans import Span
from headrace.model.statements import InsertBlock, Now, RowValue, SubtableSpec, TagValue
from headrace.model.tables import Name, Table


@dataclass(frozen=True, slots=True)
class TaggedBlock:
    """A block without the tags, and for each subtable it names the tags of its first row."""

    block: InsertBlock
    subtables: tuple[SubtableSpec, ...] = ()


def separate_tags(block: InsertBlock, table: Table, owner: Name) -> TaggedBlock:
    """Separate tags from the other columns. `owner` is the supertable with its database."""
    names = block.columns or ()
    if table.series_key not in names or not any(table.is_tag(name) for name in names):
        return TaggedBlock(block)
    tags = [index for index, name in enumerate(names) if table.is_tag(name)]
    others = [index for index in range(len(names)) if index not in tags]
    key, tag_names = names.index(table.series_key), tuple(names[index] for index in tags)
    subtables: dict[str, SubtableSpec] = {}
    for row, span in zip(block.rows, block.row_spans, strict=True):
        name = row[key] if len(row) == len(names) else None
        if isinstance(name, str) and name not in subtables:
            values = tuple(TagValue(check_constant(row[index], span), span) for index in tags)
            subtables[name] = SubtableSpec(Name(owner.database, name, span), owner, values, tag_names, if_not_exists=True)
    rows = tuple(tuple(row[index] for index in others) if len(row) == len(names) else row for row in block.rows)
    return TaggedBlock(replace(block, rows=rows, columns=tuple(names[index] for index in others)), tuple(subtables.values()))


def check_constant(value: RowValue, span: Span) -> Scalar:
    """Return the value of a tag, which cannot be relative to the present."""
    if isinstance(value, Now):
        raise NotSupportedError("now as the value of a tag is not supported", hint="write the timestamp", span=span)
    return value
