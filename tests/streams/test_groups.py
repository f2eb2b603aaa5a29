"""Ids and names of groups, computed for many groups at once."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.tables import Subtable
from headrace.model.types import DataType, TypeKind
from headrace.streams.definition.digests import md5
from headrace.streams.definition.group_ids import group_ids, subtable_uids
from headrace.streams.definition.groups import GroupKind, GroupRule, custom_subtable_names, default_subtable_names

INT = DataType(TypeKind.INT)
VARCHAR = DataType(TypeKind.VARCHAR, 10)
NCHAR = DataType(TypeKind.NCHAR, 10)
DECIMAL = DataType(TypeKind.DECIMAL, 30, 2)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
GROUPS = st.tuples(
    st.none() | st.integers(-(2**31), 2**31 - 1),
    st.none() | TEXTS,
    st.none() | TEXTS,
    st.none() | st.decimals(-(10**20), 10**20, places=2),
)
ARROW_TYPES = (pa.int32(), pa.string(), pa.string(), pa.decimal128(30, 2))


def group_id(values: Sequence[Any], types: Sequence[DataType]) -> int:
    """Return the id of one group."""
    return int(group_ids([pa.array([value]) for value in values], types)[0])


def custom_name(name: str, table: str, id_: int) -> str:
    """Return the name of one group's subtable."""
    return str(custom_subtable_names(pa.array([name]), table, np.array([id_], np.uint64))[0])


def expected_id(number: int | None, text: str | None, wide: str | None, amount: Decimal | None) -> int:
    """Return the id of a group, from its bytes as TDengine lays them out."""
    message = bytes(value is None for value in (number, text, wide, amount))
    message += b"" if number is None else struct.pack("<i", number)
    for encoded in (None if text is None else text.encode(), None if wide is None else wide.encode("utf-32-le")):
        message += b"" if encoded is None else struct.pack("<H", len(encoded)) + encoded
    message += b"" if amount is None else int(amount * 100).to_bytes(16, "little", signed=True)
    first, last = struct.unpack("<QQ", hashlib.md5(message, usedforsecurity=False).digest())
    return int(first or last)


def expected_name(name: str, id_: int) -> str:
    """Return the name of a subtable of table `d4`."""
    if id_ == 0 or name.endswith(str(id_)):
        return name.encode()[:192].decode(errors="ignore")
    suffix = f"_d4_{id_}"
    return (name.encode()[: 192 - len(suffix)].decode(errors="ignore") + suffix).replace(".", "_")


@given(st.lists(st.binary(max_size=200), max_size=40))
def test_digests_are_those_of_md5(messages: list[bytes]) -> None:
    digests = md5(pa.array(messages, pa.binary()))
    assert [bytes(row) for row in digests] == [hashlib.md5(message, usedforsecurity=False).digest() for message in messages]


def test_digests_of_more_messages_than_are_computed_at_once() -> None:
    messages = [b"x" * (number % 150) + str(number).encode() for number in range(40_000)]
    digests = md5(pa.array(messages).slice(1))
    assert [bytes(row) for row in digests] == [hashlib.md5(message, usedforsecurity=False).digest() for message in messages[1:]]


@given(st.lists(GROUPS, min_size=1, max_size=40))
def test_ids_are_those_of_the_bytes_of_the_values(groups: list[tuple[Any, ...]]) -> None:
    columns = [pa.array(values, type_) for values, type_ in zip(zip(*groups, strict=True), ARROW_TYPES, strict=True)]
    assert group_ids(columns, [INT, VARCHAR, NCHAR, DECIMAL]).tolist() == [expected_id(*group) for group in groups]


@given(st.lists(st.tuples(TEXTS.map(lambda text: "." + text * 4), st.integers(0, 2**64 - 1), st.booleans()), max_size=40))
def test_custom_names_are_those_of_each_group(groups: list[tuple[str, int, bool]]) -> None:
    names = [name + str(id_) if ends else name for name, id_, ends in groups]
    ids = [id_ for _, id_, _ in groups]
    named = custom_subtable_names(pa.array(names, pa.string()), "d4", np.array(ids, np.uint64)).to_pylist()
    assert named == [expected_name(name, id_) for name, id_ in zip(names, ids, strict=True)]


def test_the_uids_of_many_subtables_are_those_of_each() -> None:
    names = ["d1", "größe", "", "d" * 200]
    assert subtable_uids("db", pa.array(names)).tolist() == [Subtable("db", name, "t").uid for name in names]


@pytest.mark.parametrize(
    ("values", "identity"),
    [
        ((5, "abc"), 13738306697995764986),
        ((None, "de"), 978989965562776917),
        ((7, "x"), 17688065766297177060),
        ((None, "yy"), 11789157040959320202),
    ],
)
def test_the_id_of_a_group_is_the_one_tdengine_gives(values: tuple[object, ...], identity: int) -> None:
    assert group_id(values, [INT, VARCHAR]) == identity


def test_the_name_of_a_group_without_subtable_expression_is_the_one_tdengine_gives() -> None:
    assert default_subtable_names("sinkdb", "dest_tbl", np.zeros(1, np.uint64)).to_pylist() == [
        "t_850a2f4965e49242a1681aca09c237aa"
    ]


def test_null_and_empty_text_are_different_groups() -> None:
    assert group_id([None], [VARCHAR]) != group_id([""], [VARCHAR])


@pytest.mark.parametrize("kind", [kind for kind in TypeKind if kind not in (TypeKind.DATE,)])
def test_every_type_has_an_id_that_tells_values_apart(kind: TypeKind) -> None:
    one, two = {
        TypeKind.BOOL: (True, False),
        TypeKind.DECIMAL: (Decimal("1.5"), Decimal("1.6")),
        TypeKind.VARBINARY: (b"a", b"b"),
    }.get(kind, ("a", "b") if kind in (TypeKind.VARCHAR, TypeKind.NCHAR, TypeKind.JSON, TypeKind.GEOMETRY) else (1, 2))
    type_ = DataType(kind, 10, 1) if kind is TypeKind.DECIMAL else DataType(kind)
    assert group_id([one], [type_]) != group_id([two], [type_])


def test_a_subtable_expression_gets_the_target_and_the_group_as_suffix() -> None:
    assert custom_name("x.d1", "d4", 77) == "x_d1_d4_77"


def test_a_name_that_ends_with_its_group_is_not_changed() -> None:
    assert custom_name("x.77", "d4", 77) == "x.77"


def test_the_name_of_the_only_group_is_not_changed() -> None:
    assert custom_name("aaa", "d4", 0) == "aaa"


def test_a_name_that_looks_like_a_default_is_not_changed() -> None:
    assert custom_name("t_" + "0" * 32, "d4", 77) == "t_" + "0" * 32


def test_a_long_name_is_cut_before_its_suffix_at_whole_characters() -> None:
    name = custom_name("é" * 300, "d4", 77)
    assert name.endswith("_d4_77")
    assert len(name.encode()) <= 192
    assert set(name.removesuffix("_d4_77")) == {"é"}


def test_a_missing_name_falls_back_to_the_default() -> None:
    rule = GroupRule(GroupKind.VALUES, "db", "t", name="p1")
    names = rule.subtable_names(np.full(3, 5, np.uint64), pa.array([None, "", "a"]))
    assert names.to_pylist() == [*default_subtable_names("db", "t", np.full(2, 5, np.uint64)).to_pylist(), "a_t_5"]
