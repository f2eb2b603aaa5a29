"""Texts with a limit, such as tags of type VARCHAR, are evaluated without Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.compute.columnar.expressions import evaluate, type_of
from headrace.compute.nodes import Column, Node, UnsupportedError
from headrace.compute.tdengine.conversions import truncate_text
from headrace.model.types import DataType, TypeKind

TEXTS = pa.array(["größe", None, ""])


def limited(length: int) -> Node:
    return truncate_text(Column("name"), DataType(TypeKind.VARCHAR, length))


def test_texts_within_the_limit_stay_as_they_are() -> None:
    assert type_of(limited(7), {"name": pa.string()}) == pa.string()
    assert evaluate(limited(7), {"name": TEXTS}) == TEXTS
    assert evaluate(limited(7), {"name": pa.nulls(2, pa.string())}).null_count == 2
    assert evaluate(limited(7), {"name": pa.scalar(None, pa.string())}).as_py() is None
    assert evaluate(limited(7), {"name": pa.scalar("größe")}).as_py() == "größe"


@pytest.mark.parametrize("values", [TEXTS, pa.chunked_array([TEXTS]), pa.scalar("größe")])
def test_a_text_beyond_the_limit_keeps_its_complete_characters(values: pa.Array | pa.ChunkedArray | pa.Scalar) -> None:
    cut = evaluate(limited(6), {"name": values})
    assert (cut if isinstance(cut, pa.Scalar) else cut[0]).as_py() == "größ"


def test_other_types_are_left_to_spark() -> None:
    with pytest.raises(UnsupportedError):
        type_of(limited(7), {"name": pa.int32()})
