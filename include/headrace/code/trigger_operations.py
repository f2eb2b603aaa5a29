"""Operations of a code host on triggers. Their instances live as long as the host does."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from headrace.code.class_loading import LoadError, require_method
from headrace.code.protocol import Header
from headrace.code.requests import Answer, Request
from headrace.trigger import FailureStrategy, Insertion, Tablet, Trigger, TriggerAttributes, TriggerStore, Type

MAX_RESULT_CHARACTERS: Final = 100

_instances: Final[dict[str, Trigger]] = {}


def create_trigger(request: Request) -> Answer:
    """Create an instance, in place of an older one of the same trigger, and answer with its strategy and what it has stored."""
    header = request.header
    trigger = new_instance(request.class_, header["entries"])
    attributes = TriggerAttributes(header["attributes"])
    trigger.validate(attributes)
    trigger.on_create(attributes)
    if header["restores"]:
        trigger.restore()
    _instances[header["instance"]] = trigger
    trigger.take_insertions()
    return {
        "failure_strategy": FailureStrategy(trigger.get_failure_strategy()).value,
        "changes": trigger.store.take_changes(),
    }, None


def new_instance(class_: type[Any], entries: Mapping[str, str] | None) -> Trigger:
    """Return an instance of a class; `entries` is what the trigger has stored, None for a stateless one."""
    if not issubclass(class_, Trigger):
        raise LoadError(f"{class_.__module__}.{class_.__name__} is not a subclass of Trigger")
    require_method(class_, Trigger, ("fire",))
    trigger = class_()
    trigger.store = TriggerStore(entries, writable=entries is not None)
    return trigger


def fire_trigger(request: Request) -> Answer:
    """Call `fire` with the rows of the request. An instance that this host lacks has to be created first."""
    header = request.header
    trigger = _instances.get(header["instance"])
    if trigger is None:
        return {"missing": True}, None
    tablet = Tablet(
        header["device"],
        request.rows(),
        [Type(name) for name in header["types"]],
        header["timestamp_precision"],
        database=header["database"],
    )
    try:
        result = trigger.fire(tablet)
    except BaseException:
        trigger.store.discard_changes()
        trigger.take_insertions()
        raise
    insertions = [encode_insertion(insertion) for insertion in trigger.take_insertions()]
    return {"result": repr_of(result), "changes": trigger.store.take_changes(), "insertions": insertions}, None


def drop_trigger(request: Request) -> Answer:
    """Call `on_drop` of an instance, if the host has it."""
    trigger = _instances.pop(request.header["instance"], None)
    if trigger is None:
        return {"missing": True}, None
    trigger.on_drop()
    return {}, None


def repr_of(result: object) -> bool | str:
    """Return what `fire` has returned: True, or another value as text."""
    return True if result is True else repr(result)[:MAX_RESULT_CHARACTERS]


def encode_insertion(insertion: Insertion) -> Header:
    """Return a row that a trigger inserts as a part of a header. Raise `TypeError` for values that have no type of a series."""
    if not isinstance(insertion.device_id, str) or isinstance(insertion.time, bool):
        raise TypeError("insert takes the path of a device, a time in ticks, and values by measurement")
    values = {str(name): encode_value(value) for name, value in insertion.values.items()}
    return {"device": insertion.device_id, "time": int(insertion.time), "values": values}


def encode_value(value: Any) -> Any:
    """Return a value as JSON can represent it."""
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, bytes):
        return {"bytes": base64.b64encode(plain).decode()}
    if plain is not None and not isinstance(plain, bool | int | float | str):
        raise TypeError(f"insert takes Booleans, numbers, texts and bytes, not {type(plain).__name__}")
    return plain
