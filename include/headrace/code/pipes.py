"""Plugins of pipes, run in code hosts of this process."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, TypeVar

from headrace.code.answers import Changes, read_changes
from headrace.code.failures import Call, text
from headrace.code.hosts import HostedClass, current_hosts
from headrace.code.pipe_events import decode_events, encode_events, rows_of
from headrace.code.protocol import GarbageError, Header, Message
from headrace.errors import Error, ProgrammingError
from headrace.model.functions import Artifact
from headrace.model.pipe_plugins import RegisteredPipePlugin
from headrace.model.pipes import PipeStage
from headrace.pipe import Event, PipeRuntime
from headrace.settings import Settings

T = TypeVar("T")
MAX_SUPPLY_ROWS: Final = 1 << 16
MAX_SUPPLY_SECONDS: Final = 1.0
"""Limits of a batch of a source: once it has that many rows, or took that long, no further event is asked for."""


@dataclass(frozen=True, slots=True)
class PluginDescription:
    """What a class is, and the attributes whose values are secret."""

    stage: PipeStage
    secrets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SuppliedEvents:
    """Events of a source as a message has them, the position after them as JSON, and the pause after no events in seconds."""

    headers: list[Header]
    body: Any
    position: str
    poll_seconds: float = 1.0

    def events(self) -> list[Event]:
        """Return the events. Raise `GarbageError` if they are none."""
        return decode_events(self.headers, self.body)


@dataclass(frozen=True, slots=True)
class ProcessedEvents:
    """What became of events, and what the processor has stored: JSON texts by key, None for a removed key."""

    events: list[Event]
    changes: Changes


@dataclass(frozen=True, slots=True)
class PluginInstance:
    """An instance of a plugin, for one stage of a pipe, in a code host that has nothing else.

    The host may end at any time, and its instance with it; `start` then creates another one. Methods raise `UserCodeError` if the
    code fails, takes too long, or ends its process, `InvalidCodeError` if there is no class, and `ProgrammingError` if the
    parameters are not valid.
    """

    plugin: RegisteredPipePlugin
    hosted: HostedClass
    attributes: Mapping[str, str]
    runtime: PipeRuntime

    @classmethod
    def of(
        cls,
        plugin: RegisteredPipePlugin,
        settings: Settings,
        attributes: Mapping[str, str],
        runtime: PipeRuntime,
        user: str = "",
    ) -> PluginInstance:
        """Return an instance whose code is copied to this machine. It is created by `start`.

        Args:
            plugin: The plugin.
            settings: Where artifacts are, and the limits of code hosts.
            attributes: The parameters.
            runtime: The pipe.
            user: What no other instance has, so that it has a process of its own; empty for one that is only validated.
        """
        hosted = HostedClass.registered(plugin.artifact, plugin.class_name, plugin.owner, plugin.name, settings)
        return cls(plugin, replace(hosted, user=user), attributes, runtime)

    def validate(self) -> str | None:
        """Let the plugin check the parameters, and return why they are not valid; None if they are."""
        return self._ask("validate_pipe_plugin", {}, read_invalid)

    def start(self, entries: Mapping[str, str] | None = None, position: str = "null") -> Changes:
        """Create an instance, which replaces an older one, and return what it has stored.

        Args:
            entries: What a processor has stored: JSON texts by key.
            position: Where a source continues, as JSON.
        """
        runtime = asdict(self.runtime) | {"position": json.loads(position)}
        fields = {"entries": dict(entries or {}), "runtime": runtime}
        created = self._ask("create_pipe_plugin", fields, read_created)
        if isinstance(created, str):
            raise ProgrammingError(f"{self.name} does not accept its parameters: {created}", hint="change them by ALTER PIPE")
        return created

    def supply(self) -> SuppliedEvents | None:
        """Return the next events of a source, none if there are none at the moment; None if the instance is missing."""
        fields = {"max_rows": MAX_SUPPLY_ROWS, "max_seconds": MAX_SUPPLY_SECONDS}
        return self._ask("supply_events", fields, read_supplied)

    def acknowledge(self, position: str) -> None:
        """Let a source know that the events up to a position, as JSON, are delivered."""
        self._ask("acknowledge_events", {"position": position}, is_present)

    def process(self, events: Sequence[Event]) -> ProcessedEvents | None:
        """Return what a processor makes of events; None if the instance is missing."""
        return self._ask("process_events", {}, read_processed, events)

    def handshake(self) -> bool:
        """Let a sink connect to its receiver; return False if the instance is missing."""
        return self._ask("handshake_sink", {}, is_present)

    def heartbeat(self) -> bool:
        """Let a sink check that its receiver answers; return False if the instance is missing."""
        return self._ask("heartbeat_sink", {}, is_present)

    def transfer(self, events: Sequence[Event], delivery: str) -> bool:
        """Let a sink deliver events; return False if the instance is missing."""
        return self._ask("transfer_events", {"delivery": delivery}, is_present, events)

    def close(self) -> None:
        """Let the instance release what it holds, and end its process. A failure is in the log of the code host alone."""
        with contextlib.suppress(Error):
            self._ask("close_pipe_plugin", {}, is_present)
        current_hosts().end(self.hosted)

    @property
    def name(self) -> str:
        """How messages call the instance."""
        pipe = f" of pipe {self.runtime.pipe_name}" if self.runtime.pipe_name else ""
        return f"{self.plugin.stage} plugin {self.plugin.name}{pipe}"

    def _ask(self, operation: str, fields: Header, read: Callable[[Message], T], events: Sequence[Event] = ()) -> T:
        headers, body = encode_events(events)
        request = {
            **fields,
            "operation": operation,
            "class": self.hosted.location,
            "instance": self.plugin.stage.value,
            "attributes": dict(self.attributes),
            "events": headers,
        }
        call = Call(self.name, rows=rows_text(events))
        return current_hosts().host(self.hosted).ask(call, request, read, body if events else None)


def describe_plugin(artifact: Artifact, class_name: str, owner: str, name: str, settings: Settings) -> PluginDescription:
    """Load a class `module.Class` of an artifact, which a user registers by a name, in a code host, and return what plugin it is.

    Raises:
        InvalidCodeError: The artifact has no such class, or it is no plugin of pipes.
        UserCodeError: Loading it fails, takes too long, or ends the process.
        StorageError: The artifact cannot be copied to this machine.
    """
    hosted = HostedClass.registered(artifact, class_name, owner, name, settings)
    return hosted.ask({"operation": "describe_pipe_plugin"}, read_description)


def rows_text(events: Sequence[Event]) -> str:
    """Return which rows a call was about, for messages."""
    rows = sum(map(rows_of, events))
    return f"{rows} row{'' if rows == 1 else 's'}" if events else ""


def read_description(message: Message) -> PluginDescription:
    """Read the answer to `describe_pipe_plugin`."""
    secrets = message.header.get("secrets")
    if not isinstance(secrets, list) or not all(isinstance(name, str) for name in secrets):
        raise GarbageError("not a description of a plugin")
    try:
        return PluginDescription(PipeStage(str(message.header.get("stage"))), tuple(secrets))
    except ValueError:
        raise GarbageError("not a stage") from None


def read_invalid(message: Message) -> str | None:
    """Read the answer to `validate_pipe_plugin`: why parameters are not valid, None if they are."""
    return text(message.header, "invalid") if "invalid" in message.header else None


def read_created(message: Message) -> Changes | str:
    """Read the answer to `create_pipe_plugin`: what the instance has stored, or why its parameters are not valid."""
    invalid = read_invalid(message)
    return read_changes(message.header) if invalid is None else invalid


def is_present(message: Message) -> bool:
    """Read an answer that says no more than whether the host has the instance."""
    return message.header.get("missing") is not True


def read_supplied(message: Message) -> SuppliedEvents | None:
    """Read the answer to `supply_events`."""
    if not is_present(message):
        return None
    match message.header:
        case {"events": list(headers), "position": str(position), "poll_seconds": float(poll_seconds)}:
            supplied = SuppliedEvents(headers, message.body, position, poll_seconds)
        case _:
            raise GarbageError("not events")
    try:
        json.loads(position)
    except ValueError:
        raise GarbageError("not a position") from None
    supplied.events()
    return supplied


def read_processed(message: Message) -> ProcessedEvents | None:
    """Read the answer to `process_events`."""
    if not is_present(message):
        return None
    return ProcessedEvents(decode_events(message.header.get("events"), message.body), read_changes(message.header))
