"""Digests of keys never hide a key that a file has."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.tables import TBNAME
from headrace.storage import Tables
from headrace.storage.delta.key_digests import FILE_DIGESTS, KeyDigests, key_digests
from tests.storage.samples import METERS, POWER, read, rows

keys = st.lists(st.tuples(st.sampled_from(["d1", "d2", "é"]), st.integers(0, 20)), min_size=1, max_size=10)


def digests_of(own: list[tuple[str, int]], *, encodes: bool = False) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    names = pa.array([name for name, _ in own])
    return key_digests(
        pa.table({"tbname": names.dictionary_encode() if encodes else names, "ts": pa.array([time for _, time in own])}),
        ["tbname", "ts"],
    )


@given(st.lists(keys, max_size=12), keys, st.sampled_from([80, 200, 10_000]))
def test_absence_is_shown_of_keys_that_no_file_has(
    files: list[list[tuple[str, int]]], looked_for: list[tuple[str, int]], size: int
) -> None:
    digests = KeyDigests(size)
    for number, own in enumerate(files):
        digests.add(str(number), digests_of(own, encodes=number % 2 == 0))
        digests.add(str(number), digests_of(own))
    missing = digests.missing([str(number) for number in range(len(files))])
    there = [str(number) for number in range(len(files)) if str(number) not in missing]
    present = {key for number in there for key in files[int(number)]}
    shown = digests.show_absence(there, digests_of(looked_for))
    assert shown == present.isdisjoint(looked_for)
    assert not digests.show_absence(["another"], digests_of(looked_for))
    assert len(there) == len(files) or sum(len(own) + FILE_DIGESTS for own in files) > size


def test_columns_are_not_interchangeable() -> None:
    one, other = (key_digests(pa.table({"a": [a], "b": [b]}), ["a", "b"]) for a, b in ((1, 2), (2, 1)))
    assert one[0] != other[0]


def test_keys_are_found_when_there_are_more_than_fit(meters: Tables) -> None:
    meters.writer.write(METERS, POWER, rows([{"ts": 0, "a": 0}]))
    handle = meters.writer._handles.writer(METERS)
    handle.digests = KeyDigests(3)
    for first in (1, 3, 5):
        meters.writer.write(METERS, POWER, rows([{"ts": first, "a": 1}, {"ts": first + 1, "a": 1}]))
    meters.writer.write(METERS, POWER, rows([{"ts": 2, "a": 2, TBNAME: "d1"}, {"ts": 9, "a": 9}]))
    assert [(row["ts"], row["a"]) for row in read(meters.scan(METERS))] == [
        (0, 0),
        (1, 1),
        (2, 2),
        *((ts, 1) for ts in range(3, 7)),
        (9, 9),
    ]
