"""The plugins of pipes: what each kind of them has to do, and those that are built in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.jobs.kinds import Part, imported
from headrace.model.needs import Needs
from headrace.model.pipes import PipeStage
from headrace.model.positions import Offsets
from headrace.pipes.attributes import PipeAttributes

if TYPE_CHECKING:  # SHOW PIPES looks plugins up, and should not import Arrow
    import pyarrow as pa

    from headrace.context import Context
    from headrace.egress import Endpoint
    from headrace.model.tables import Table
    from headrace.pipes.events import Event

Tables: TypeAlias = "Mapping[str, pa.Table]"


@dataclass(frozen=True, slots=True)
class PipeContext:
    """What a plugin gets when a pipe begins to run.

    Attributes:
        context: The environment of the driver.
        pipe_id: The id of the pipe, which other pipes never have.
        name: The name of the pipe.
        owner: The user as whom it runs.
        shared: What the pipes of a driver share, such as the readers of tables.
        leaves_history: Whether tasks of Airflow transfer the history if it is large.
    """

    context: Context
    pipe_id: str
    name: str
    owner: str = ""
    shared: Any = None
    leaves_history: bool = False


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """What a source hands over at a time: events in order, and the offsets after them."""

    events: Sequence[Event]
    offsets: Offsets


class Source:
    """Reads events. A batch that is read again from the same offsets to the same end has the same events.

    By default there never are any.
    """

    def read(self, offsets: Offsets, until: Offsets | None = None) -> SourceBatch | None:  # noqa: ARG002
        """Return what follows some offsets, None if there is nothing yet.

        The batch has a bounded size. After a crash, `until` has the offsets after a batch that has perhaps been delivered: the
        same batch is returned again.
        """
        return None

    def has_news(self, offsets: Offsets) -> bool:  # noqa: ARG002
        """Return whether `read` may return something. Called all the time: takes no time, and never waits."""
        return False

    def has_ended(self, offsets: Offsets) -> bool:  # noqa: ARG002
        """Return whether nothing will ever follow, so that the pipe drops itself."""
        return False

    def pending(self, offsets: Offsets) -> tuple[int, int | None]:  # noqa: ARG002
        """Return how many rows follow, as far as that is known, and when the oldest was written (epoch ms, None if unknown)."""
        return 0, None

    def acknowledge(self, offsets: Offsets) -> None:
        """Take note that all up to these offsets is durable at the sink. Called after each batch."""

    def close(self) -> None:
        """Release what the source holds."""


class Processor:
    """Transforms events, by default into themselves. It may keep a state, which is durable with the position of the pipe."""

    def process(self, events: Sequence[Event], now: int) -> Sequence[Event]:  # noqa: ARG002
        """Return the events that take the place of those of a batch; `now` is the clock in epoch ms."""
        return events

    @property
    def wake_at(self) -> int | None:
        """When `process` should be called even without events, in epoch ms; None for never."""
        return None

    def state(self) -> Tables | None:
        """Return the state after the last batch as tables by name; None for a processor without state."""
        return None

    def restore(self, state: Tables) -> None:
        """Continue from a state."""

    def close(self) -> None:
        """Release what the processor holds."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a sink has to deliver at a time.

    Attributes:
        pipe_id: The id of the pipe.
        batch: The number of the batch, which grows by one with each. A batch that may have been delivered before a crash is
            delivered again under its number: with the same events, unless delivering twice has the effect of once.
        events: What is to be delivered, in order.
        epoch: That of the lease under which the pipe runs; 0 without a lease. A driver with an older one may still be running.
        is_same: Whether the number names these events, whichever process delivers them.
        is_last: Whether no more events follow under the number. Those of a number that was not ended are delivered again from the
            first one on.
    """

    pipe_id: str
    batch: int
    events: Sequence[Event]
    epoch: int = 0
    is_same: bool = False
    is_last: bool = True


class Sink:
    """Delivers events to a receiver. Pipes with equal attributes of their sinks share one; calls do not overlap.

    All methods raise `OperationalError` (or another `TransientError`) for what another try may overcome, such as a receiver that
    cannot be reached, and a `TerminalError` for what it cannot. By default events are dropped.
    """

    def handshake(self) -> None:
        """Connect to the receiver, or raise an error that says why that is not possible."""

    def heartbeat(self) -> None:
        """Check that the receiver answers. Called when nothing was delivered for a while."""

    def transfer(self, delivery: Delivery) -> None:
        """Deliver events; return when the receiver has them durably."""

    def close(self) -> None:
        """Release what the sink holds. Called when its last user has left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """A plugin that a stage of a pipe may name.

    Attributes:
        name: The name, in lower case. `SHOW PIPEPLUGINS` has it in upper case.
        stage: The stage.
        class_name: What `SHOW PIPEPLUGINS` calls its class.
        validate: Checks attributes without side effects; raises `ProgrammingError` with status 1107 (see `pipe_error`).
        create: Creates the source, processor or sink of attributes.
        aliases: Other names.
        is_listed: Whether `SHOW PIPEPLUGINS` lists it, as IoTDB does.
        secrets: Keys without prefix whose values are passwords.
        receiver: How keys without prefix begin whose values say who gets the passwords, and how; None if those of all keys may.
        is_idempotent: Of a sink, whether events that are delivered twice have the effect of one delivery, whatever the batches.
        acts_as_owner: Of a sink, whether it uses the rights of the owner of its pipe, so that other owners' pipes need another one.
        begin: Of a source, returns the offsets at which a new pipe begins; None for no offsets.
        capture: Of a source, stores what a new pipe of an id reads later as it is now.
        reads: Of a source, returns whether it reads a table that is created after the pipe.
        endpoints: Of a source or sink, returns the hosts, files and folders that valid attributes name; None if it has none.
        needs: Returns what it reads and writes of the catalog with some attributes; nothing if it is None.
    """

    name: str
    stage: PipeStage
    class_name: str
    validate: Part[Callable[[PipeAttributes], None]]
    create: Part[Callable[[PipeAttributes, PipeContext], Any]]
    aliases: tuple[str, ...] = ()
    is_listed: bool = True
    secrets: frozenset[str] = frozenset({"password"})
    receiver: tuple[str, ...] | None = None
    is_idempotent: bool = False
    acts_as_owner: bool = False
    begin: Part[Callable[[PipeAttributes, Context], Offsets]] | None = None
    capture: Part[Callable[[PipeAttributes, Context, str], None]] | None = None
    reads: Part[Callable[[PipeAttributes, Context, Table], bool]] | None = None
    endpoints: Part[Callable[[PipeAttributes], tuple[Endpoint, ...]]] | None = None
    needs: Part[Callable[[PipeAttributes], Needs]] | None = None


@dataclass(frozen=True, slots=True)
class RejectedPlugin:
    """A plugin that IoTDB has and Headrace does not, with what to use instead."""

    name: str
    hint: str


def plugin(name: str, stage: PipeStage, module: str, *, is_outside: bool = False, **options: Any) -> Plugin:
    """Return a built-in plugin whose module has `validate` and `create`, and `endpoints` if it leads outside."""
    return Plugin(
        name=name,
        stage=stage,
        class_name=f"headrace.pipes.{module}",
        validate=imported(f"headrace.pipes.{module}:validate"),
        create=imported(f"headrace.pipes.{module}:create"),
        endpoints=imported(f"headrace.pipes.{module}:endpoints") if is_outside else None,
        **options,
    )


def no_checks(attributes: PipeAttributes) -> None:
    """Accept all attributes."""
