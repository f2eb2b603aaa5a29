"""Rows of one supertable with the same fields, and the types that their values need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.doors.tdengine.schemaless.lines import HEAD, TIME
from headrace.doors.tdengine.schemaless.series import Series
from headrace.doors.tdengine.schemaless.values import TypedValues, typed_values
from headrace.model.types import DataType, TypeKind
from headrace.pipes.formats.records import ID, MEASUREMENTS, VALUES, Problems, list_names, split_names
from headrace.pipes.formats.scalars import as_array

FindKind = Callable[[str, str], TypeKind | None]
"""Returns the type of a column of a table, if it exists."""


@dataclass(slots=True)
class Block:
    """Rows of a supertable.

    Attributes:
        table: The supertable.
        rows: `id`, `time` in ns, `tbname`, and a column for each field.
        types: The types of the fields, with the lengths that their values need.
        series: The subtables of the rows, by name.
    """

    table: str
    rows: pa.Table
    types: dict[str, DataType]
    series: Mapping[str, Series] = field(default_factory=dict)

    def without(self, problems: Problems) -> Block:
        """Return it without the rows of requests that have failed."""
        rows = problems.without(self.rows)
        return self if rows.num_rows == self.rows.num_rows else Block(self.table, rows, self.types, self.series)


def blocks_of(
    records: pa.Table, find_series: Callable[[str], Series | str], find_kind: FindKind, problems: Problems
) -> list[Block]:
    """Return the rows of records in blocks. Requests with a value of another type than its column has are problems."""
    encoded = as_array(as_array(records[HEAD]).dictionary_encode())
    found = [find_series(head) for head in encoded.dictionary.to_pylist()]
    for text in {one for one in found if isinstance(one, str)}:
        bad = pa.array([one == text for one in found]).take(encoded.indices)
        problems.add(records, bad, text)
    records = problems.without(records.append_column("series", encoded.indices))
    series = [one if isinstance(one, Series) else None for one in found]
    new_kinds: dict[tuple[str, str], TypeKind] = {}

    def kind_of(table: str, column: str) -> TypeKind | None:
        return find_kind(table, column) or new_kinds.get((table, column))

    blocks = []
    for table, names, rows, own in groups_of(records, series):
        block = block_of(table, names, rows, kind_of, problems)
        new_kinds |= {(table, name): type_.kind for name, type_ in block.types.items()}
        block.series = own
        blocks.append(block)
    cleaned = [block.without(problems) for block in blocks]
    return [block for block in cleaned if block.rows.num_rows]


def groups_of(records: pa.Table, series: Sequence[Series | None]) -> Iterator[tuple[str, list[str], pa.Table, dict[str, Series]]]:
    """Yield a supertable, the names of fields, the records with both, and the subtables of the supertable."""
    if not records.num_rows:
        return
    tables = list(dict.fromkeys(one.table for one in series if one is not None))
    numbers = np.array([-1 if one is None else tables.index(one.table) for one in series], np.int64)
    names = list_names(as_array(records[MEASUREMENTS]))
    codes = numbers[records["series"].to_numpy()] * len(names.dictionary) + names.indices.to_numpy()
    subtables = pa.array([None if one is None else one.subtable for one in series], pa.string())
    rows = records.append_column("tbname", subtables.take(as_array(records["series"])))
    distinct, first = np.unique(codes, return_index=True)
    for code in distinct[np.argsort(first)]:
        table, number = tables[code // len(names.dictionary)], code % len(names.dictionary)
        chosen = rows if len(distinct) == 1 else rows.filter(pa.array(codes == code))
        used = pc.unique(chosen["series"]).to_pylist()
        own = {one.subtable: one for one in (series[index] for index in used) if one is not None}
        yield table, split_names(names.dictionary[number].as_py()), chosen, own


def block_of(
    table: str,
    names: Sequence[str],
    rows: pa.Table,
    find_kind: FindKind,
    problems: Problems,
) -> Block:
    """Return rows with a column for each field; of fields with the same name, the last counts."""
    flat = as_array(rows[VALUES]).flatten()
    columns = {ID: rows[ID], TIME: rows[TIME], "tbname": rows["tbname"]}
    types: dict[str, DataType] = {}
    for name, position in {name: position for position, name in enumerate(names)}.items():
        texts = flat.take(pa.array(np.arange(position, len(flat), len(names)))) if len(names) > 1 else flat
        values = values_of(name, texts, rows[ID], find_kind(table, name), problems)
        if values is not None:
            columns[field_column(name)] = values.values
            types[name] = values.type
    return Block(table, pa.table(columns), types)


def field_column(name: str) -> str:
    """Return the name of a field's column in a block, which is none of those that each block has."""
    return f".{name}"


def values_of(name: str, texts: pa.Array, ids: pa.ChunkedArray, kind: TypeKind | None, problems: Problems) -> TypedValues | None:
    """Return the values of a field in the type of its column, or of its first value if there is no column."""
    typed = list(typed_values(texts))
    rows = pa.table({ID: ids})
    is_valid = np.zeros(len(texts), bool)
    for one in typed:
        is_valid |= True if one.mask is None else one.mask.to_numpy(zero_copy_only=False)
    problems.add(rows, pa.array(~is_valid), f"the value of field {name} is neither a number, a boolean nor a text in quotes")
    if kind is None and typed:
        kind = min(typed, key=first_row).kind
    for one in typed:
        if one.kind is not kind:
            mask = pa.repeat(True, len(texts)) if one.mask is None else one.mask
            problems.add(rows, mask, f"field {name} is {kind}, and cannot have a value of type {one.kind}")
    return next((one for one in typed if one.kind is kind), None)


def first_row(values: TypedValues) -> int:
    return 0 if values.mask is None else int(pc.index(values.mask, True).as_py())
