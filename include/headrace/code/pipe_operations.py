"""Operations of a code host on plugins of pipes. Their instances live as long as the host does, unless a call fails."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar

import pyarrow.compute as pc

from headrace.code.class_loading import LoadError, require_method
from headrace.code.pipe_events import decode_events, encode_events, rows_of
from headrace.code.requests import Answer, Progress, Request, TimeRange
from headrace.pipe import (
    Event,
    EventCollector,
    ParameterValidator,
    PipeParameters,
    PipePlugin,
    PipeProcessor,
    PipeRuntime,
    PipeSink,
    PipeSource,
    PipeStore,
    TabletBatch,
    TabletEvent,
)

P = TypeVar("P", bound=PipePlugin)
STAGES: Final[dict[type[PipePlugin], tuple[str, tuple[str, ...]]]] = {
    PipeSource: ("source", ("supply",)),
    PipeProcessor: ("processor", ("process", "process_batch")),
    PipeSink: ("sink", ("transfer", "transfer_batch")),
}
"""The stage of each base class, and the methods of which a plugin defines one."""
MAX_POSITION_CHARACTERS: Final = 1 << 20
MISSING: Final[Answer] = ({"missing": True}, None)

_instances: Final[dict[str, PipePlugin]] = {}


def describe_pipe_plugin(request: Request) -> Answer:
    """Say what a plugin is. Its instance must be constructible."""
    stage = stage_of(request.class_)
    plugin: PipePlugin = request.class_()
    return {"stage": stage, "secrets": [str(name) for name in plugin.secret_attributes]}, None


def stage_of(class_: type[Any]) -> str:
    """Return the stage of a plugin. Raise `LoadError` if the class is none, or does not do what the stage needs."""
    for base, (stage, methods) in STAGES.items():
        if issubclass(class_, base):
            require_method(class_, base, methods)
            return stage
    raise LoadError(f"{class_.__module__}.{class_.__name__} is not a subclass of PipeSource, PipeProcessor or PipeSink")


def validate_pipe_plugin(request: Request) -> Answer:
    """Create an instance, and let it check its parameters."""
    stage_of(request.class_)
    try:
        request.class_().validate(ParameterValidator(PipeParameters(request.header["attributes"])))
    except ValueError as error:
        return {"invalid": str(error)}, None
    return {}, None


def create_pipe_plugin(request: Request) -> Answer:
    """Create an instance, in place of an older one, and answer with what it has stored."""
    header = request.header
    stage_of(request.class_)
    parameters = PipeParameters(header["attributes"])
    plugin: PipePlugin = request.class_()
    if isinstance(plugin, PipeProcessor):
        plugin.store = PipeStore(header["entries"], writable=True)
    try:
        plugin.validate(ParameterValidator(parameters))
    except ValueError as error:
        return {"invalid": str(error)}, None
    plugin.customize(parameters, PipeRuntime(**header["runtime"]))
    if isinstance(plugin, PipeSource):
        plugin.start()
    _instances[header["instance"]] = plugin
    return {"changes": plugin.store.take_changes() if isinstance(plugin, PipeProcessor) else {}}, None


@contextmanager
def instance_of(request: Request, kind: type[P]) -> Iterator[P | None]:
    """Yield the instance of a request, None if this host does not have it. One that fails is forgotten: its state is unknown."""
    name = request.header["instance"]
    plugin = _instances.get(name)
    try:
        yield plugin if isinstance(plugin, kind) else None
    except BaseException:
        if _instances.pop(name, None) is not None and plugin is not None:
            with suppress(Exception):
                plugin.close()
        raise


# Sources


def supply_events(request: Request) -> Answer:
    """Answer with the next events, and with the position after them."""
    with instance_of(request, PipeSource) as source:
        if source is None:
            return MISSING
        events = list(supplied(source, request.header["max_rows"], request.header["max_seconds"]))
        position = json.dumps(source.position() if events else None)
        if len(position) > MAX_POSITION_CHARACTERS:
            raise ValueError(f"the position has more than {MAX_POSITION_CHARACTERS} characters")
        headers, body = encode_events(events)
    return {"events": headers, "position": position, "poll_seconds": float(source.poll_seconds)}, body


def supplied(source: PipeSource, max_rows: int, max_seconds: float) -> Iterator[Event]:
    """Yield events until there is none, there are many rows, or some time has passed."""
    deadline, rows = time.monotonic() + max_seconds, 0
    while rows < max_rows and time.monotonic() < deadline:
        event = source.supply()
        if event is None:
            return
        collector = EventCollector()
        collector.collect(event)
        rows += rows_of(event)
        yield event


def acknowledge_events(request: Request) -> Answer:
    """Let a source know that events are delivered."""
    with instance_of(request, PipeSource) as source:
        if source is None:
            return MISSING
        source.acknowledge(json.loads(request.header["position"]))
    return {}, None


# Processors


def process_events(request: Request) -> Answer:
    """Answer with what becomes of events, and with what the processor has stored."""
    with instance_of(request, PipeProcessor) as processor:
        if processor is None:
            return MISSING
        collector = EventCollector()
        for event in decode_events(request.header["events"], request.message.body):
            process_event(processor, event, collector, request.progress)
        headers, body = encode_events(collector.take_events())
        changes = processor.store.take_changes()
    return {"events": headers, "changes": changes}, body


def process_event(processor: PipeProcessor, event: Event, collector: EventCollector, progress: Progress) -> None:
    """Call the method for a kind of event."""
    if isinstance(event, TabletEvent):
        raise TypeError("tablets come in batches")
    if not isinstance(event, TabletBatch):
        processor.process_event(event, collector)
    elif type(processor).process_batch is not PipeProcessor.process_batch:
        processor.process_batch(event, collector)
    else:
        for tablet in tracked(event, progress):
            processor.process(tablet, collector)


# Sinks


def handshake_sink(request: Request) -> Answer:
    """Let a sink connect to its receiver."""
    with instance_of(request, PipeSink) as sink:
        if sink is None:
            return MISSING
        sink.handshake()
    return {}, None


def heartbeat_sink(request: Request) -> Answer:
    """Let a sink check that its receiver answers."""
    with instance_of(request, PipeSink) as sink:
        if sink is None:
            return MISSING
        sink.heartbeat()
    return {}, None


def transfer_events(request: Request) -> Answer:
    """Let a sink deliver events."""
    with instance_of(request, PipeSink) as sink:
        if sink is None:
            return MISSING
        number = 0
        for event in decode_events(request.header["events"], request.message.body):
            for transfer in transfers(sink, event, request.progress):
                sink.delivery_id = f"{request.header['delivery']}-{number}"
                transfer()
                number += 1
    return {}, None


def transfers(sink: PipeSink, event: Event, progress: Progress) -> Iterator[Any]:
    """Yield the calls that deliver an event."""
    if isinstance(event, TabletEvent):
        raise TypeError("tablets come in batches")
    if not isinstance(event, TabletBatch):
        yield partial(sink.transfer, event)
    elif type(sink).transfer_batch is not PipeSink.transfer_batch:
        yield partial(sink.transfer_batch, event)
    else:
        yield from (partial(sink.transfer, tablet) for tablet in tracked(event, progress))


def close_pipe_plugin(request: Request) -> Answer:
    """Let an instance release what it holds, if the host has it."""
    plugin = _instances.pop(request.header["instance"], None)
    if plugin is None:
        return MISSING
    plugin.close()
    return {}, None


def tracked(batch: TabletBatch, progress: Progress) -> Iterator[TabletEvent]:
    """Yield the tablets of a batch, and name each one in a failure until the next one."""
    for tablet in batch.tablets():
        progress.subject = tablet.device_id
        progress.position = partial(times_of, tablet)
        yield tablet
    progress.subject, progress.position = "", lambda: None


def times_of(tablet: TabletEvent) -> TimeRange | None:
    """Return the first and last time of a tablet."""
    bounds: Mapping[str, Any] = pc.min_max(tablet.batch.column(0)).as_py()
    return bounds["min"], bounds["max"]
