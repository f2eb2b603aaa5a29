"""Classes of functions that a language calls: those of user code, and of Headrace's own library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol, TypeVar

import pyarrow as pa

from headrace.code.aggregate_calls import AggregateCall, is_mergeable
from headrace.code.answers import CallDescription
from headrace.code.artifacts import ArtifactStore
from headrace.code.failures import limit_error, parameter_error
from headrace.code.hosts import HostedClass, HostLimits
from headrace.code.series_calls import SeriesCall
from headrace.code.series_runs import SeriesRun
from headrace.compute.functions.series_streams import SeriesStream
from headrace.library import find_class
from headrace.library.steps import DEFAULT_MAX_STEPS, MAX_STEPS, StepLimitError
from headrace.model.functions import Artifact
from headrace.udf import UDAF, UDTF, MappableRowByRowAccessStrategy, ParameterError, Parameters
from headrace.udf.strategies import AccessStrategyError

F = TypeVar("F", UDTF, UDAF)
LIBRARY_HINT: Final = "docs/reference/functions-library.md lists the parameters of each function"


class FunctionClass(Protocol):
    """A class of a function. It can be pickled, since Spark's tasks call it. `HostedClass` is one of user code.

    Methods raise `TypeMismatchError` if the class does not accept the parameters of a call.
    """

    def configure(self, parameters: Parameters) -> CallDescription:
        """Validate a call of a UDTF, and say what it returns."""

    def configure_aggregate(self, parameters: Parameters) -> CallDescription:
        """Validate a call of a UDAF, and say what it returns."""

    def open_series(self, parameters: Parameters) -> SeriesStream:
        """Return a call of a UDTF for each of some series."""

    def aggregate_values(self, parameters: Parameters, rows: pa.Table, groups: int) -> pa.Array:
        """Return the values of a UDAF for groups 0, 1, …, also of those without rows.

        Args:
            parameters: inputs and attributes of the call.
            rows: `group`, an INT64, `time` in ticks, then `x0`, `x1`, … for the inputs; for each group in order of time.
            groups: the number of groups.
        """

    def merge_states(self, parameters: Parameters, rows: pa.Table, groups: int) -> pa.Table:
        """Return the states of a mergeable UDAF for groups 0, 1, …, and their values: `state` and `value`.

        Args:
            parameters: inputs and attributes of the call.
            rows: as for `aggregate_values`, with a last column `state`: if it is not NULL, the row is a state from this method.
            groups: the number of groups.
        """


@dataclass(frozen=True, slots=True)
class LibraryClass:
    """A class of Headrace's own library, by its name there. It is trusted, so it runs in the process that calls it."""

    class_name: str
    max_steps: int = DEFAULT_MAX_STEPS

    def configure(self, parameters: Parameters) -> CallDescription:
        """Validate a call of a UDTF, and say what it returns."""
        with parameter_errors():
            call = SeriesCall(self._create(UDTF), parameters)
        is_mappable = isinstance(call.configurations.access_strategy, MappableRowByRowAccessStrategy)
        return CallDescription(call.output_type, is_mappable)

    def configure_aggregate(self, parameters: Parameters) -> CallDescription:
        """Validate a call of a UDAF, and say what it returns."""
        with parameter_errors():
            call = AggregateCall(self._create(UDAF), parameters)
        return CallDescription(call.output_type, mergeable=is_mergeable(call.function))

    def open_series(self, parameters: Parameters) -> LibrarySeries:
        """Return a call of a UDTF for each of some series."""
        return LibrarySeries(SeriesRun(lambda: SeriesCall(self._create(UDTF), self._limited(parameters))))

    def aggregate_values(self, parameters: Parameters, rows: pa.Table, groups: int) -> pa.Array:
        """Return the values of a UDAF for groups 0, 1, …, also of those without rows."""
        with parameter_errors(is_executed=True):
            return AggregateCall(self._create(UDAF), self._limited(parameters)).values(one_batch(rows), groups)["value"]

    def merge_states(self, parameters: Parameters, rows: pa.Table, groups: int) -> pa.Table:
        """Return the states of a mergeable UDAF for groups 0, 1, …, and their values."""
        with parameter_errors(is_executed=True):
            call = AggregateCall(self._create(UDAF), self._limited(parameters))
            return pa.Table.from_batches([call.merge(one_batch(rows), groups)])

    def _limited(self, parameters: Parameters) -> Parameters:
        return parameters.with_system_attribute(MAX_STEPS, str(self.max_steps))

    def _create(self, kind: type[F]) -> F:
        class_ = find_class(self.class_name)
        assert class_ is not None
        function = class_()
        assert isinstance(function, kind)
        return function


@dataclass(frozen=True, slots=True)
class LibrarySeries:
    """A call of a UDTF of the library for each of some series."""

    run: SeriesRun

    def process(self, rows: pa.Table, *, more: bool) -> pa.Table:
        """Return the points of the next rows."""
        with parameter_errors(is_executed=True):
            return self.run.process(one_batch(rows), more=more)

    def close(self) -> None:
        """Free the call of a series that has not ended."""
        self.run.close()


@dataclass(frozen=True, slots=True)
class ArtifactClass:
    """A class of user code in an artifact, which code hosts run. Each machine has its own copy of the artifact.

    `function` is the name by which queries call it, if messages should have that instead of the name of the class.
    """

    store: ArtifactStore
    artifact: Artifact
    class_name: str
    owner: str
    limits: HostLimits
    function: str = ""

    def configure(self, parameters: Parameters) -> CallDescription:
        """Validate a call of a UDTF, and say what it returns."""
        return hosted(self).configure(parameters)

    def configure_aggregate(self, parameters: Parameters) -> CallDescription:
        """Validate a call of a UDAF, and say what it returns."""
        return hosted(self).configure_aggregate(parameters)

    def open_series(self, parameters: Parameters) -> SeriesStream:
        """Return a call of a UDTF for each of some series."""
        return hosted(self).open_series(parameters)

    def aggregate_values(self, parameters: Parameters, rows: pa.Table, groups: int) -> pa.Array:
        """Return the values of a UDAF for groups 0, 1, …, also of those without rows."""
        return hosted(self).aggregate_values(parameters, rows, groups)

    def merge_states(self, parameters: Parameters, rows: pa.Table, groups: int) -> pa.Table:
        """Return the states of a mergeable UDAF for groups 0, 1, …, and their values."""
        return hosted(self).merge_states(parameters, rows, groups)


@lru_cache(maxsize=256)
def hosted(class_: ArtifactClass) -> HostedClass:
    """Return the class for the hosts of this process. Its code is copied to this machine on first use."""
    return HostedClass.of(class_.artifact, class_.class_name, class_.owner, class_.store, class_.limits, class_.function)


def one_batch(rows: pa.Table) -> pa.RecordBatch:
    batches = rows.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], rows.schema)


@contextmanager
def parameter_errors(*, is_executed: bool = False) -> Iterator[None]:
    """Turn errors of parameters into those of types, possibly of a function that is executed."""
    try:
        yield
    except StepLimitError as error:
        raise limit_error(str(error)) from error
    except MemoryError as error:
        raise limit_error(f"a function needs more memory than there is: {error}") from error
    except ParameterError as error:
        is_executed = is_executed or isinstance(error, AccessStrategyError)
        raise parameter_error(str(error), is_executed=is_executed, hint=LIBRARY_HINT) from error
