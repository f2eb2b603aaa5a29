"""TDengine's Python functions, which are functions of a module, in its language."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Final

from headrace.code.artifacts import ArtifactStore
from headrace.code.function_classes import ArtifactClass, FunctionClass
from headrace.code.hosts import HostLimits
from headrace.code.module_names import AGGREGATE, BUFFER_SIZE, OUTPUT_TYPE, SCALAR
from headrace.code.scalar_calls import ScalarCall
from headrace.compute.functions.aggregates import StreamUse
from headrace.compute.functions.arrow import ArrowArguments, ArrowFunction, ArrowRule, ArrowScalarRule, arrow_scalar
from headrace.compute.functions.scalars import ScalarFunction
from headrace.errors import TypeMismatchError
from headrace.model.functions import RegisteredFunction
from headrace.model.types import FLOATS, INTEGERS, STRINGS, DataType, TypeKind
from headrace.settings import Settings
from headrace.udf import Parameters, Type

DECLARED: Final = re.compile(r"([A-Z ]+)(?:\((\d+)\))?")
KINDS: Final = {
    **dict.fromkeys(INTEGERS, Type.INT64),
    **dict.fromkeys(FLOATS, Type.DOUBLE),
    **dict.fromkeys(STRINGS, Type.TEXT),
    TypeKind.BOOL: Type.BOOLEAN,
    TypeKind.TIMESTAMP: Type.TIMESTAMP,
    TypeKind.VARBINARY: Type.BLOB,
}
"""The types of values as code hosts return them."""


def module_function(registered: RegisteredFunction, settings: Settings) -> ArrowFunction | ScalarFunction:
    """Return what the language calls by the name of a registered function."""
    assert registered.artifact is not None
    adapter = AGGREGATE if registered.is_aggregate else SCALAR
    store, owner, name = ArtifactStore.of(settings), registered.owner, registered.name
    limits = HostLimits.of(settings, owner, name)
    source = ArtifactClass(store, registered.artifact, f"{registered.module}.{adapter}", owner, limits, name)
    binding = ModuleBinding(source, registered)
    summary = f"the Python function {registered.class_name}"
    if registered.is_aggregate:
        return ArrowFunction(registered.name, binding.aggregate, summary, max_arguments=None, streams=StreamUse.ANY)
    return arrow_scalar(registered.name, 1, None, binding.scalar, summary)


@dataclass(frozen=True, slots=True)
class ModuleBinding:
    """Binds calls of the functions of a module."""

    source: FunctionClass
    registered: RegisteredFunction

    @property
    def output_type(self) -> DataType:
        """The type that the statement has declared."""
        declared = DECLARED.fullmatch(self.registered.output_type)
        assert declared is not None, self.registered.output_type
        kind, length = declared.groups()
        return DataType(TypeKind(kind), None if length is None else int(length))

    def scalar(self, arguments: ArrowArguments) -> ArrowScalarRule:
        """Return the rule of a call of `process`."""
        parameters, type_ = self._parameters(arguments), self.output_type
        call = ScalarCall(arguments.function, self.source, parameters, type_, skips_nulls=False)
        return ArrowScalarRule(call.name, type_, call)

    def aggregate(self, arguments: ArrowArguments) -> ArrowRule:
        """Return the rule of a call of `start`, `reduce` and `finish`."""
        apply = partial(self.source.aggregate_values, self._parameters(arguments))
        return ArrowRule(self.output_type, apply, note="in a code host")

    def _parameters(self, arguments: ArrowArguments) -> Parameters:
        for number, type_ in enumerate(arguments.types, 1):
            if type_.kind not in KINDS:
                message = f"argument {number} of {arguments.function} is {type_}, which Python functions do not take"
                raise TypeMismatchError(message, hint="cast it to another type")
        types = [KINDS[type_.kind] for type_ in arguments.types]
        attributes = {OUTPUT_TYPE: str(KINDS[self.output_type.kind]), BUFFER_SIZE: str(self.registered.buffer_size)}
        return Parameters(types, attributes, timestamp_precision=arguments.precision.value)
