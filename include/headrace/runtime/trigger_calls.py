"""Calls of stateful triggers in an snode, which has their living instances: what writers send, and what the snode answers."""

from __future__ import annotations

import base64
import json
import logging
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa

from headrace.code.trigger_operations import encode_insertion
from headrace.code.triggers import FireResult, TabletRows, read_insertion
from headrace.context import Context
from headrace.errors import DataError, OperationalError
from headrace.model.snodes import Heartbeat
from headrace.model.triggers import RegisteredTrigger, TriggerState
from headrace.runtime.http import RunTrigger
from headrace.runtime.living_snodes import endpoint_of, living_snodes
from headrace.runtime.snode_client import JSON, TRIGGERS_PATH, post
from headrace.trees.trigger_drops import drop_here
from headrace.trees.trigger_instances import call_here

logger = logging.getLogger(__name__)

MAX_ATTEMPTS: Final = 3
DROP: Final = "drop"
EXTRA_TIMEOUT_S: Final = 30.0
"""Seconds for which a call may wait for others, beside the time limit of user code."""


class NoAnswerError(Exception):
    """An snode has not answered a request, which may have had an effect."""

    def __init__(self, error: OperationalError) -> None:
        """Wrap the error of the request."""
        super().__init__(error.message)
        self.error = error


def call_in_snode(context: Context, trigger: RegisteredTrigger, rows: TabletRows) -> FireResult | None:
    """Have the first living snode call a trigger; None if there is none that can be reached.

    Raises:
        Error: The trigger failed; `OperationalError` if the snode has not answered after three attempts. Such a call may have had
            an effect.
    """
    failure: OperationalError | None = None
    body = encode_call(trigger, rows)
    for _ in range(MAX_ATTEMPTS):
        snode = next(living_snodes(context), None)
        if snode is None:
            break
        try:
            content = ask(context, snode, body)
        except NoAnswerError as error:
            failure = error.error
            continue
        return None if content is None else decode_result(content)
    if failure is not None:
        raise failure
    return None


def drop_in_snode(context: Context, trigger: RegisteredTrigger) -> bool:
    """Have the snode that has a trigger's instance call `on_drop`; return False if none of those that answer has it.

    Raises:
        Error: `on_drop` failed.
    """
    return any(drop_in(context, snode, trigger) for snode in living_snodes(context))


def drop_in(context: Context, snode: Heartbeat, trigger: RegisteredTrigger) -> bool:
    body = {"operation": DROP, "name": trigger.name, "id": trigger.id}
    for _ in range(MAX_ATTEMPTS):
        with suppress(NoAnswerError):
            content = ask(context, snode, body)
            return content is not None and json.loads(content).get("dropped") is True
    return False


def ask(context: Context, snode: Heartbeat, body: dict[str, Any]) -> bytes | None:
    """Return the answer of an snode; None if it cannot be reached.

    Raises:
        NoAnswerError: It does not answer. The request may have had an effect.
        Error: The trigger failed.
    """
    try:
        response = post(endpoint_of(snode, context), TRIGGERS_PATH, body, JSON, call_timeout(context))
    except OperationalError as error:
        if error.code != OperationalError.code:
            raise
        logger.warning("%s", error.message)
        raise NoAnswerError(error) from error
    return None if response is None else response[1]


def call_timeout(context: Context) -> float:
    """Return the seconds after which a call is given up."""
    return context.settings.code_timeout_s + EXTRA_TIMEOUT_S


def trigger_runner(context: Context) -> RunTrigger:
    """Return the function behind `POST /triggers`, which calls triggers in this process."""

    def run(body: dict[str, Any]) -> dict[str, Any]:
        if body.get("operation") == DROP:
            trigger = context.catalog.triggers.find(str(body["name"]))
            # The process that drops it holds its lock, so no call is under way.
            is_dropped = trigger is not None and trigger.id == body["id"] and trigger.state is TriggerState.DROPPING
            return {"dropped": trigger is not None and is_dropped and drop_here(context, trigger)}
        return encode_result(call_here(context, str(body["name"]), str(body["id"]), decode_rows(body)))

    return run


def encode_call(trigger: RegisteredTrigger, rows: TabletRows) -> dict[str, Any]:
    """Return the body of a request."""
    return {
        "name": trigger.name,
        "id": trigger.id,
        "device": rows.device,
        "database": rows.database,
        "timestamp_precision": rows.timestamp_precision,
        "types": list(rows.types),
        "rows": base64.b64encode(rows.stream).decode(),
    }


def decode_rows(body: dict[str, Any]) -> TabletRows:
    """Return the rows of a request."""
    try:
        table = pa.ipc.open_stream(base64.b64decode(body["rows"], validate=True)).read_all()
        types = tuple(map(str, body["types"]))
        return TabletRows(str(body["device"]), str(body["database"]), str(body["timestamp_precision"]), types, table)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"the rows of a call of a trigger cannot be read: {error}") from None


def encode_result(result: FireResult) -> dict[str, Any]:
    """Return the body of an answer: the rows to insert. The snode has stored what the trigger has stored."""
    return {"insertions": [encode_insertion(insertion) for insertion in result.insertions]}


def decode_result(content: bytes) -> FireResult:
    """Return what a call in an snode leaves to its caller."""
    return FireResult({}, tuple(map(read_insertion, json.loads(content)["insertions"])))
