"""The functions of the library in TDengine's language: those that return one value are aggregates."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Final

import numpy as np

from headrace.code.aggregate_rules import aggregate_rule
from headrace.code.function_classes import FunctionClass, LibraryClass
from headrace.code.inputs import LIBRARY_TYPES, TYPES, in_types, input_types
from headrace.code.options import options_of
from headrace.compute.functions.aggregates import StreamUse, check_count
from headrace.compute.functions.arrow import ArrowArguments, ArrowFunction, ArrowRule
from headrace.compute.functions.scalars import ScalarArguments, ScalarFunction
from headrace.compute.language import Function
from headrace.compute.terms import Term
from headrace.errors import NotSupportedError
from headrace.library import IOTDB_LIBRARY
from headrace.library.signatures import SIGNATURES, Signature
from headrace.model.types import DataType
from headrace.udf import Parameters

if TYPE_CHECKING:
    import pyarrow as pa

LIBRARY_NOTE: Final = "in the process of the query, since it is part of the function library"


@cache
def library_aggregates(max_steps: int) -> tuple[Function, ...]:
    """Return all functions of the library. Those that return series raise `NotSupportedError` when they are called."""
    return tuple(library_function(name, signature, max_steps) for name, signature in SIGNATURES.items())


def library_function(name: str, signature: Signature, max_steps: int) -> Function:
    """Return a function of the library as a function of the language."""
    class_name = f"{IOTDB_LIBRARY}{signature.class_name}"
    if signature.inputs is None:
        return ScalarFunction(name, 0, None, refuse_series, class_name)
    return ArrowFunction(
        name, ValueBinding(LibraryClass(class_name, max_steps), signature), class_name, max_arguments=None, streams=StreamUse.ANY
    )


def refuse_series(arguments: ScalarArguments) -> Term:
    """Raise the error for a function that returns a series."""
    raise NotSupportedError(
        f"{arguments.function} returns a series, and the TDengine dialect takes only functions of the library with one value",
        hint="store the points in a tree and call it in the IoTDB dialect, or write a Python function with process(block)",
    )


@dataclass(frozen=True, slots=True)
class ValueBinding:
    """Binds calls of a function that returns one value."""

    source: LibraryClass
    signature: Signature

    def __call__(self, arguments: ArrowArguments) -> ArrowRule:
        """Return the rule of a call."""
        parameters = self._parameters(arguments)
        if self.signature.is_aggregate:
            return aggregate_rule(self.source, parameters, LIBRARY_NOTE)
        description = self.source.configure(parameters)
        return ArrowRule(
            DataType(TYPES[description.output_type]), partial(values_of_groups, self.source, parameters), note=LIBRARY_NOTE
        )

    def _parameters(self, arguments: ArrowArguments) -> Parameters:
        assert self.signature.inputs is not None
        check_count(arguments.function, self.signature.inputs, self.signature.inputs, len(arguments.types))
        types = input_types(arguments.function, arguments.types, LIBRARY_TYPES)
        options = options_of(arguments.function, self.signature.attributes, arguments.constants, arguments.precision)
        return Parameters(types, options, timestamp_precision=arguments.precision.value)


def values_of_groups(source: FunctionClass, parameters: Parameters, rows: pa.Table, groups: int) -> pa.Array:
    """Return the value of each group, of which each is a series for a UDTF; NULL without one. Rows without a value are left out."""
    points = in_types(parameters, rows)
    with closing(source.open_series(parameters)) as stream:
        values = stream.process(points.rename_columns(["series", *points.column_names[1:]]), more=False)
    return scatter(values["series"].to_numpy(), values["value"].combine_chunks(), groups)


def scatter(positions: np.ndarray[tuple[int], np.dtype[np.int64]], values: pa.Array, size: int) -> pa.Array:
    """Return an array of some size that has these values at these positions, and NULL elsewhere."""
    import pyarrow as pa

    index = np.full(size, -1, np.int64)
    index[positions] = np.arange(len(positions))
    return values.take(pa.array(index, mask=index < 0))
