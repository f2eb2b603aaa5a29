"""Languages with the functions that users have registered."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING

from headrace.code.aggregate_rules import aggregate_rule
from headrace.code.artifacts import ArtifactStore
from headrace.code.function_classes import ArtifactClass, FunctionClass, LibraryClass
from headrace.code.hosts import HostLimits
from headrace.code.inputs import TYPES, input_types
from headrace.code.library_bindings import LIBRARY_NOTE, library_aggregates
from headrace.code.module_bindings import module_function
from headrace.code.options import written_options
from headrace.code.scalar_calls import ScalarCall
from headrace.compute.functions.aggregates import StreamUse
from headrace.compute.functions.arrow import (
    ArrowArguments,
    ArrowFunction,
    ArrowRule,
    ArrowScalarRule,
    SeriesArrowArguments,
    SeriesArrowFunction,
    SeriesArrowRule,
)
from headrace.compute.iotdb.library import TEXT_FUNCTIONS
from headrace.compute.language import Function, Language, language
from headrace.library import IOTDB_LIBRARY
from headrace.library.signatures import SIGNATURES
from headrace.model.functions import RegisteredFunction, called_functions, stored_name
from headrace.model.types import DataType
from headrace.settings import Settings
from headrace.sql.iotdb.names import function_key
from headrace.udf import Parameters

if TYPE_CHECKING:
    from headrace.catalog import Catalog


def registered_language(dialect: str, catalog: Catalog, settings: Settings, names: Collection[str] | None = None) -> Language:
    """Return a language with the functions of users and of the library.

    Of functions with the same name, the language's own comes first, then the registered one. `names` are the registered functions
    that are visible, as the catalog spells them; None for all. A job sees those that it has called from the beginning, so that a
    new function does not take the place of one in the library.
    """
    functions = callable_functions(dialect, catalog)
    visible = functions if names is None else tuple(function for function in functions if function.name in names)
    return _with_functions(dialect, visible, settings)


def callable_functions(dialect: str, catalog: Catalog) -> tuple[RegisteredFunction, ...]:
    """Return the registered functions that a language calls: its own, and in TDengine's also aggregates of IoTDB's."""
    own = catalog.functions.all(dialect)
    if dialect != "tdengine":
        return own
    names = {function_key(function.name) for function in own}
    trees = catalog.functions.all("iotdb")
    return (*own, *(function for function in trees if function.is_aggregate and function_key(function.name) not in names))


def functions_named(dialect: str, catalog: Catalog, names: Collection[str]) -> tuple[RegisteredFunction, ...]:
    """Return the present versions of some registered functions that a language calls."""
    return tuple(function for function in callable_functions(dialect, catalog) if function.name in names) if names else ()


@lru_cache(maxsize=64)
def _with_functions(dialect: str, functions: tuple[RegisteredFunction, ...], settings: Settings) -> Language:
    own = language(dialect)
    registered = [function_of(function, settings) for function in functions if function_key(function.name) not in own.functions]
    extended = with_library(own.with_functions(*registered) if registered else own, settings.library_max_steps)
    if dialect != "iotdb":
        return extended
    # Every aggregate has a row for no rows.
    added = {name for name, function in extended.functions.items() if isinstance(function, ArrowFunction)}
    return replace(extended, counting_aggregates=own.counting_aggregates | added)


def with_library(language_: Language, max_steps: int) -> Language:
    """Return the language with the functions of the library whose names are free. `max_steps` limits what a call may cost."""
    functions = {"iotdb": tree_library, "tdengine": library_aggregates}.get(language_.name)
    if functions is None:
        return language_
    return language_.with_functions(*(function for function in functions(max_steps) if function.name not in language_.functions))


@cache
def tree_library(max_steps: int) -> tuple[Function, ...]:
    """Return the functions of the library in IoTDB's language."""
    functions = [
        (aggregate_function if signature.is_aggregate else series_function)(
            name, LibraryClass(IOTDB_LIBRARY + signature.class_name, max_steps), IOTDB_LIBRARY + signature.class_name, LIBRARY_NOTE
        )
        for name, signature in SIGNATURES.items()
    ]
    return (*functions, *TEXT_FUNCTIONS.values())


def registered_calls(dialect: str, catalog: Catalog, statement: object) -> tuple[str, ...]:
    """Return the names of the registered functions that a statement calls, as the catalog stores them."""
    names = {function_key(function.name): function.name for function in callable_functions(dialect, catalog)}
    own = language(dialect).functions
    return tuple(sorted({names[call] for call in called_functions(statement) if call in names and call not in own}))


def added_calls(language_: Language, statement: object) -> tuple[str, ...]:
    """Return the names of the registered functions and of those of the library that a statement calls, as the catalog does."""
    own = language(language_.name).functions
    calls = (call for call in set(called_functions(statement)) if call not in own and call in language_.functions)
    # A function that has the name of an operator is called by another key.
    return tuple(sorted(stored_name(language_.name, call.removesuffix("()")) for call in calls))


def function_of(registered: RegisteredFunction, settings: Settings) -> Function:
    """Return what a language calls by the name of a registered function."""
    name, class_name = function_key(registered.name), registered.class_name
    if registered.dialect == "tdengine":
        return module_function(registered, settings)
    if class_name in TEXT_FUNCTIONS:
        return replace(TEXT_FUNCTIONS[class_name], name=name)
    build = aggregate_function if registered.is_aggregate else series_function
    return build(name, class_of(registered, settings), class_name, note_on(registered))


def note_on(registered: RegisteredFunction) -> str:
    """Return where a function runs, and in which form, for EXPLAIN. Costs are those of calling it, measured on one core."""
    if registered.artifact is None:
        return LIBRARY_NOTE
    form = "with many rows at once (about 0.04 µs for each)" if registered.vectorized else "row by row (about 0.25 µs for each)"
    return f"in a code host, {form}"


def class_of(registered: RegisteredFunction, settings: Settings) -> FunctionClass:
    """Return the class of a registered function."""
    if registered.artifact is None:
        return LibraryClass(registered.class_name, settings.library_max_steps)
    store, limits = ArtifactStore.of(settings), HostLimits.of(settings, registered.owner, registered.name)
    return ArtifactClass(store, registered.artifact, registered.class_name, registered.owner, limits)


def series_function(name: str, source: FunctionClass, summary: str, note: str) -> SeriesArrowFunction:
    """Return a UDTF as a function of a language."""
    return SeriesArrowFunction(name, SeriesBinding(source, note), summary, min_arguments=0, max_arguments=None)


def aggregate_function(name: str, source: FunctionClass, summary: str, note: str) -> ArrowFunction:
    """Return a UDAF as a function of a language."""
    binding = AggregateBinding(source, note)
    return ArrowFunction(name, binding, summary, min_arguments=0, max_arguments=None, streams=StreamUse.ANY)


@dataclass(frozen=True, slots=True)
class SeriesBinding:
    """Binds calls of a UDTF."""

    source: FunctionClass
    note: str

    def __call__(self, arguments: SeriesArrowArguments) -> SeriesArrowRule:
        """Return the rule of a call."""
        parameters = parameters_of(arguments, self.source)
        description = self.source.configure(parameters)
        type_ = DataType(TYPES[description.output_type])
        row_by_row = ScalarCall(arguments.function, self.source, parameters, type_) if description.mappable else None
        scalar = None if row_by_row is None else ArrowScalarRule(row_by_row.name, type_, row_by_row)
        return SeriesArrowRule(type_, partial(self.source.open_series, parameters), scalar, self.note)


@dataclass(frozen=True, slots=True)
class AggregateBinding:
    """Binds calls of a UDAF."""

    source: FunctionClass
    note: str

    def __call__(self, arguments: ArrowArguments) -> ArrowRule:
        """Return the rule of a call."""
        return aggregate_rule(self.source, parameters_of(arguments, self.source), self.note)


def parameters_of(arguments: SeriesArrowArguments | ArrowArguments, source: FunctionClass) -> Parameters:
    """Return the parameters of a call as functions see them. The library does not look at the inputs as SQL."""
    types = input_types(arguments.function, arguments.types)
    attributes = dict(arguments.attributes)
    if isinstance(arguments, ArrowArguments):
        attributes |= written_options(arguments.function, arguments.constants)
    inputs = () if isinstance(source, LibraryClass) else arguments.inputs
    return Parameters(types, attributes, inputs, arguments.precision.value)
