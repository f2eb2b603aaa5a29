"""Types of series by Arrow types."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from headrace.udf.types import Type

if TYPE_CHECKING:
    import pyarrow as pa


@cache
def types_by_arrow() -> dict[pa.DataType, Type]:
    inferred = (Type.BOOLEAN, Type.INT32, Type.INT64, Type.FLOAT, Type.DOUBLE, Type.TEXT, Type.BLOB, Type.DATE)
    return {type_.arrow: type_ for type_ in inferred}


def type_of(arrow_type: pa.DataType) -> Type:
    """Return the type of series whose values have an Arrow type. Raise `TypeError` if there is none."""
    type_ = types_by_arrow().get(arrow_type)
    if type_ is None:
        names = ", ".join(map(str, types_by_arrow()))
        raise TypeError(f"no series has values of the Arrow type {arrow_type}; cast them to one of {names}")
    return type_
