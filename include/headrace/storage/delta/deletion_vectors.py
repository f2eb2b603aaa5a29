"""Deletion vectors of Delta Lake: numbers of rows that are gone from a data file, which is not written again.

A commit that deletes rows removes the file from the log and adds it with another vector.
"""

from __future__ import annotations

import base64
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.errors import NotSupportedError, StorageError

FEATURE: Final = "deletionVectors"
VECTOR: Final = "deletionVector"
"""Field of an action in the log, of which the value describes a vector."""
AMONG: Final = "headrace.among"
"""Field of an action of ours: it is about those rows of its file that this vector has, and the one of `VECTOR` lacks."""
MAGIC: Final = 1_681_511_377
UUID_CHARACTERS: Final = 20
MAX_POSITIONS: Final = 100_000_000
"""Rows of a vector, and bytes of it. Few bytes can say that all of 2⁶⁴ rows are gone."""
Z85: Final = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
B85: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
"""The digits of the log, and those of Python."""
Descriptor = Mapping[str, Any]
"""Where a vector is and what it has, as in the log: `storageType`, `pathOrInlineDv`, `offset`, `sizeInBytes` and `cardinality`."""
Positions = npt.NDArray[np.int64]
Action = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RowSelection:
    """Some rows of a data file by their positions, in order: all or those `among` some, without those that are `gone`."""

    gone: Positions
    among: Positions | None = None

    def mask(self, start: int, count: int) -> npt.NDArray[np.bool_]:
        """Return which of some rows, from a position on, are selected."""
        selected = np.full(count, self.among is None)
        if self.among is not None:
            selected[_within(self.among, start, count)] = True
        selected[_within(self.gone, start, count)] = False
        return selected


def _within(positions: Positions, start: int, count: int) -> Positions:
    low, high = np.searchsorted(positions, (start, start + count))
    return positions[low:high] - start


def row_group_masks(fragment: Any, selection: RowSelection) -> dict[int, npt.NDArray[np.bool_]]:
    """Return which rows are selected of each row group of a data file that has some, by its number."""
    fragment.ensure_complete_metadata()
    counts = [fragment.metadata.row_group(number).num_rows for number in range(fragment.metadata.num_row_groups)]
    starts = np.cumsum([0, *counts])
    masks = {group.id: selection.mask(int(starts[group.id]), counts[group.id]) for group in fragment.row_groups}
    return {number: mask for number, mask in masks.items() if mask.any()}


def filter_batches(batches: Iterable[pa.RecordBatch], mask: npt.NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
    """Yield those of some rows, in order, that a mask has."""
    start = 0
    for batch in batches:
        yield batch.filter(pa.array(mask[start : start + batch.num_rows]))
        start += batch.num_rows


def is_same(one: Descriptor | None, other: Descriptor | None) -> bool:
    """Return whether two vectors of a file are the same."""
    ids = [(own["storageType"], own["pathOrInlineDv"], own.get("offset") or 0) if own else None for own in (one, other)]
    return ids[0] == ids[1]


def cardinality(descriptor: Descriptor | None) -> int:
    """Return how many rows a vector has."""
    return int(descriptor["cardinality"]) if descriptor else 0


def count_selected(action: Mapping[str, Any], rows: int) -> int:
    """Return about how many of the rows of its file an action is about. Of rows that changed it is at least one."""
    gone, among = cardinality(action.get(VECTOR)), action.get(AMONG)
    return rows - gone if among is None else max(cardinality(among) - gone, 1)


def vector_files(action: Mapping[str, Any]) -> list[str]:
    """Return the paths, as a log names them, of the files with the vectors of an action."""
    paths = [vector_path(action[key]) for key in (VECTOR, AMONG) if action.get(key)]
    return [path for path in paths if path is not None]


def vector_path(descriptor: Descriptor) -> str | None:
    """Return the path of a vector's file, as a log names files; None if the log itself has the vector."""
    kind, content = descriptor["storageType"], str(descriptor["pathOrInlineDv"])
    if kind == "i":
        return None
    if kind == "p":
        return content
    prefix, encoded = content[:-UUID_CHARACTERS], content[-UUID_CHARACTERS:]
    name = f"deletion_vector_{uuid.UUID(bytes=decode(encoded))}.bin"
    return f"{quote(prefix)}/{name}" if prefix else name


def read_vector(descriptor: Descriptor | None, read: Callable[[str, int, int], bytes]) -> Positions:
    """Return the positions that a vector has, in order.

    Args:
        descriptor: The vector; None for one without rows.
        read: Returns a part of a file by its path, as a log names it, the first byte and the number of bytes.

    Raises:
        StorageError: It is damaged.
        NotSupportedError: It has another format, or is too large.
    """
    from pyroaring import BitMap64  # few tables need it

    if not descriptor:
        return np.empty(0, np.int64)
    size, path, count = int(descriptor["sizeInBytes"]), vector_path(descriptor), cardinality(descriptor)
    name = f"the deletion vector {path or 'in the log'}"
    if max(size, count) > MAX_POSITIONS:
        raise NotSupportedError(
            f"{name} has {count} rows in {size} bytes, of which {MAX_POSITIONS} are read at most",
            hint="remove the rows in Spark: REORG TABLE … APPLY (PURGE)",
        )
    if path is None:
        data = decode(str(descriptor["pathOrInlineDv"]))[:size]
        is_whole = len(data) == size
    else:
        framed = read(path, int(descriptor.get("offset") or 0), size + 8)  # its size before it, and a checksum after it
        data = framed[4 : 4 + size]
        is_whole = framed[:4] == size.to_bytes(4, "big") and framed[4 + size :] == zlib.crc32(data).to_bytes(4, "big")
    if not is_whole:
        raise StorageError(f"{name} is damaged", hint="restore the table from a backup")
    if int.from_bytes(data[:4], "little") != MAGIC:
        raise NotSupportedError(
            f"{name} has another format than that of Delta Lake's protocol",
            hint="remove the rows in Spark: REORG TABLE … APPLY (PURGE)",
        )
    positions = BitMap64.deserialize(data[4:])
    if len(positions) != count:
        raise StorageError(f"{name} has {len(positions)} rows, not {count}", hint="restore the table from a backup")
    return np.asarray(positions.to_array(), dtype=np.int64)


def decode(text: str) -> bytes:
    """Return the bytes of a text in Z85."""
    return base64.b85decode(text.encode().translate(bytes.maketrans(Z85, B85)))


def row_changes(added: Sequence[Action], removed: Sequence[Action]) -> tuple[tuple[Action, ...], tuple[Action, ...]]:
    """Return the actions of files whose rows a commit inserts, and deletes.

    Of a file that it adds with another vector than it removes, it inserts the rows that only the old one has, and deletes those
    that only the new one has.
    """
    if not any(action.get(VECTOR) for action in (*added, *removed)):
        return tuple(added), tuple(removed)
    before, after = ({action["path"]: action for action in actions} for actions in (removed, added))
    changed = [(action, before[path].get(VECTOR), action.get(VECTOR)) for path, action in after.items() if path in before]
    restored = [{**action, VECTOR: new, AMONG: old} for action, old, new in changed if old]
    deleted = [{**action, VECTOR: old, AMONG: new} for action, old, new in changed if new]
    return (*_without(added, before), *restored), (*_without(removed, after), *deleted)


def _without(actions: Iterable[Action], paths: Mapping[str, Action]) -> list[Action]:
    return [action for action in actions if action["path"] not in paths]
