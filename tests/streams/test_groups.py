"""Ids and names of groups."""

from __future__ import annotations

from decimal import Decimal

import pytest

from headrace.model.types import DataType, TypeKind
from headrace.streams.definition.groups import GroupKind, GroupRule, custom_subtable_name, default_subtable_name, group_id

INT = DataType(TypeKind.INT)
VARCHAR = DataType(TypeKind.VARCHAR, 10)


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
    assert default_subtable_name("sinkdb", "dest_tbl", 0) == "t_850a2f4965e49242a1681aca09c237aa"


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
    assert custom_subtable_name("x.d1", "d4", 77) == "x_d1_d4_77"


def test_a_name_that_ends_with_its_group_is_not_changed() -> None:
    assert custom_subtable_name("x.77", "d4", 77) == "x.77"


def test_the_name_of_the_only_group_is_not_changed() -> None:
    assert custom_subtable_name("aaa", "d4", 0) == "aaa"


def test_a_name_that_looks_like_a_default_is_not_changed() -> None:
    assert custom_subtable_name("t_" + "0" * 32, "d4", 77) == "t_" + "0" * 32


def test_a_long_name_is_cut_before_its_suffix_at_whole_characters() -> None:
    name = custom_subtable_name("é" * 300, "d4", 77)
    assert name.endswith("_d4_77")
    assert len(name.encode()) <= 192
    assert set(name.removesuffix("_d4_77")) == {"é"}


def test_a_missing_name_falls_back_to_the_default() -> None:
    rule = GroupRule(GroupKind.VALUES, "db", "t", name="p1")
    assert rule.subtable_name(5, None) == rule.subtable_name(5, "") == default_subtable_name("db", "t", 5)
