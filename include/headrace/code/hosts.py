"""Classes of user code, run in code hosts."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Final, TypeVar

import pyarrow as pa

from headrace.code import answers
from headrace.code.answers import CallDescription, ClassDescription
from headrace.code.artifacts import ArtifactStore
from headrace.code.failures import Call
from headrace.code.host_process import CodeHost, HostLimits
from headrace.code.protocol import Header, Message, encode_parameters
from headrace.errors import Error, UserCodeError
from headrace.model.functions import Artifact
from headrace.settings import Settings
from headrace.udf import Parameters

__all__ = ["CallDescription", "ClassDescription", "CodeHosts", "HostLimits", "HostedClass", "current_hosts"]

T = TypeVar("T")
HostKey = tuple[str, str, str, HostLimits, str]
MAX_ATTEMPTS: Final = 2
"""How often an instance is created for a call: its host may end between the two."""
MAX_REQUEST_ROWS: Final = 1 << 18
"""Some MiB, which stay in the processor's cache on their way. Fewer rows would cost more round trips."""


@dataclass(slots=True)
class CodeHosts:
    """The code hosts of a process: one for each artifact, owner, limits and user. Thread-safe."""

    _hosts: dict[HostKey, CodeHost] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def host(self, hosted: HostedClass) -> CodeHost:
        """Return the host of a class. Its process starts when it is first asked."""
        key = hosted.key
        with self._lock:
            if key not in self._hosts:
                self._hosts[key] = CodeHost(hosted.path, hosted.log_name, hosted.limits)
            return self._hosts[key]

    def end(self, hosted: HostedClass) -> None:
        """End the process of a class, if there is one, and forget it."""
        with self._lock:
            host = self._hosts.pop(hosted.key, None)
        if host is not None:
            host.close()

    def close(self) -> None:
        """End all processes, also those that are working: their calls fail."""
        with self._lock:
            hosts = list(self._hosts.values())
            self._hosts.clear()
        for host in hosts:
            host.close()

    def abandon(self) -> None:
        """Close the pipes of another process, from which this one was forked: its hosts must notice when it ends."""
        for host in self._hosts.values():
            host.abandon()


_current = CodeHosts()


def current_hosts() -> CodeHosts:
    """Return the hosts of this process."""
    return _current


def _after_fork() -> None:
    global _current
    _current.abandon()
    _current = CodeHosts()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(lambda: _current.close())


@dataclass(frozen=True, slots=True)
class HostedClass:
    """A class of user code, which code hosts of this process run. It can be pickled.

    All methods raise `FunctionError` if the code fails on rows, `UserCodeError` if it fails otherwise, takes too long, or its
    process is killed, `InvalidCodeError` if the file has no such class, and `TypeMismatchError` if the class does not accept the
    parameters of a call.

    Args:
        path: a file of Python code, a wheel, a zip, or a folder; empty for an installed package.
        sha256: the hash of the file's content in hexadecimal digits, which hosts check; empty for none.
        module: the module of the class.
        class_name: the class within the module.
        owner: the user whose code it is. Code of two owners does not share a process.
        limits: what a host may use.
        user: what has a process of its own, such as the stage of a pipe; empty to share one.
        function: the name by which queries call it, for messages; empty for that of the class.
    """

    path: str
    sha256: str
    module: str
    class_name: str
    owner: str
    limits: HostLimits = field(default_factory=HostLimits)
    user: str = ""
    function: str = ""

    @classmethod
    def of(
        cls, artifact: Artifact, class_name: str, owner: str, store: ArtifactStore, limits: HostLimits, function: str = ""
    ) -> HostedClass:
        """Return a class `module.Class` of an artifact, which is copied to this machine."""
        module, _, name = class_name.rpartition(".")
        return cls(str(store.local_path(artifact)), artifact.sha256, module, name, owner, limits, function=function)

    @classmethod
    def registered(cls, artifact: Artifact, class_name: str, owner: str, name: str, settings: Settings) -> HostedClass:
        """Return a class `module.Class` of an artifact that a user registers, or has registered, by a name."""
        return cls.of(artifact, class_name, owner, ArtifactStore.of(settings), HostLimits.of(settings, owner, name))

    @property
    def location(self) -> list[str]:
        """Where the class is, as requests name it."""
        return [self.path, self.sha256, self.module, self.class_name]

    @property
    def key(self) -> HostKey:
        """What classes that share a host have in common."""
        return self.path, self.sha256, self.owner, self.limits, self.user

    def describe(self) -> ClassDescription:
        """Load the class, create an instance, and say what it is."""
        return self.ask({"operation": "describe"}, answers.class_description)

    def defined_functions(self, names: Sequence[str]) -> frozenset[str]:
        """Load the module, and return which of these names are functions of it. The class does not matter, and may be empty."""
        return self.ask({"operation": "defined_functions", "names": list(names)}, answers.function_names)

    def configure(self, parameters: Parameters) -> CallDescription:
        """Validate a call of a UDTF, and say what it returns."""
        return self.ask({"operation": "configure", **parameters_of(parameters)}, answers.call_description)

    def configure_aggregate(self, parameters: Parameters) -> CallDescription:
        """Validate a call of a UDAF, and say what it returns."""
        return self.ask({"operation": "configure_aggregate", **parameters_of(parameters)}, answers.call_description)

    def open_series(self, parameters: Parameters) -> HostedSeries:
        """Return a call of a UDTF for each of some series."""
        return HostedSeries(self, parameters)

    def aggregate_values(self, parameters: Parameters, rows: pa.Table, groups: int) -> pa.Array:
        """Return the values of a UDAF for groups 0, 1, …, also of those without rows.

        Args:
            parameters: inputs and attributes of the call.
            rows: `group`, an INT64, `time` in ticks, then `x0`, `x1`, … for the inputs; for each group in order of time.
            groups: the number of groups.
        """
        fields = {"operation": "values", **parameters_of(parameters), "groups": groups}
        return self.ask(fields, partial(answers.values, groups), rows)["value"].combine_chunks()

    def merge_states(self, parameters: Parameters, rows: pa.Table, groups: int) -> pa.Table:
        """Return the states of a mergeable UDAF for groups 0, 1, …, and their values: `state` and `value`.

        Args:
            parameters: inputs and attributes of the call.
            rows: as for `aggregate_values`, with a last column `state`: if it is not NULL, the row is a state from this method.
            groups: the number of groups.
        """
        fields = {"operation": "merge", **parameters_of(parameters), "groups": groups}
        return self.ask(fields, partial(answers.states, groups), rows)

    @property
    def log_name(self) -> str:
        """The name of the log file."""
        owner = "".join(character if character.isalnum() else "_" for character in self.owner)
        return f"{owner or 'nobody'}-{self.sha256[:16] or self.module}.log"

    def ask(self, fields: Header, read: Callable[[Message], T], table: pa.Table | None = None) -> T:
        """Return what `read` makes of a host's answer to a request."""
        request = {**fields, "class": self.location}
        call = Call(self.function or f"{self.module}.{self.class_name}", table, is_function=True)
        return current_hosts().host(self).ask(call, request, read, table)


def lost_hosts(name: str) -> UserCodeError:
    """Return the error for an instance whose hosts end before they are called."""
    return UserCodeError(f"{name} failed: its code hosts end before they are called", hint="try again")


_call_numbers = count(1)


@dataclass(slots=True)
class HostedSeries:
    """A call of a UDTF for each of some series; a `SeriesStream`. The time limit is that of a request."""

    class_: HostedClass
    parameters: Parameters
    _number: int = field(default_factory=lambda: next(_call_numbers), init=False)
    _requests: int = field(default=0, init=False)
    _is_open: bool = field(default=False, init=False)

    def process(self, rows: pa.Table, *, more: bool) -> pa.Table:
        """Return the points of the next rows, which are sent in requests of at most `MAX_REQUEST_ROWS`."""
        parts = list(slices(rows))
        if not parts and not more and self._is_open:
            parts = [rows]  # ends the last series
        points = [self._ask(part, more=more or part is not parts[-1]) for part in parts]
        return pa.concat_tables(points) if points else self._no_points()

    def close(self) -> None:
        """Free the instance, if the last rows have not been sent."""
        if self._is_open:
            self._is_open = False
            with contextlib.suppress(Error):
                self.class_.ask({**self._fields(), "operation": "forget"}, answers.nothing)

    def _ask(self, rows: pa.Table, *, more: bool) -> pa.Table:
        continues, self._is_open = self._requests > 0, False  # a call that fails is no longer open
        points = self.class_.ask({**self._fields(), "continues": continues, "more": more}, answers.points, rows)
        self._requests, self._is_open = self._requests + 1, more
        return points

    def _fields(self) -> Header:
        return {"operation": "series", **parameters_of(self.parameters), "call": self._number}

    def _no_points(self) -> pa.Table:
        return answers.points_schema(self.class_.configure(self.parameters).output_type).empty_table()


def parameters_of(parameters: Parameters) -> Header:
    return {"parameters": encode_parameters(parameters)}


def slices(table: pa.Table) -> Iterator[pa.Table]:
    """Yield the rows of a table in parts, so that none takes too long or too much memory."""
    for first in range(0, table.num_rows, MAX_REQUEST_ROWS):
        yield table.slice(first, MAX_REQUEST_ROWS)
