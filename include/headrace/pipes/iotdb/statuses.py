"""The status codes of IoTDB's answers, and which error each is."""

from __future__ import annotations

from typing import Any, Final, Protocol

from headrace.errors import ConfigurationError, Error, IntegrityError, NotSupportedError, OperationalError

SUCCESS: Final = frozenset({200, 400})
"""Success, and success with the advice to ask another node."""
IDEMPOTENT_CONFLICT: Final = 1809
"""The receiver has it already, or its TTL removes it."""
USER_CONFLICT: Final = 1810
"""What is sent contradicts what the receiver has."""
METADATA_ERROR: Final = 507
MISSING: Final = ("has not been set", "not exist")
"""Parts of messages about what does not exist, which have the status of all errors of the schema."""

ALREADY_EXISTS: Final = frozenset({501, 503, 505, 511, 515, 527, 805, 806, 809})
DOES_NOT_EXIST: Final = frozenset({500, 508, 512, 513, 524, 804, 807, 808, 811})
ACCESS: Final = frozenset({800, 801, 802, 803, 814, 816, 817, 818})
"""Wrong passwords and missing privileges."""
UNSUPPORTED: Final = frozenset({201, 300, 1800, 1801})
REJECTED: Final = frozenset({303, *range(500, 529), 607, 609, 612, 613, 700, 701, 1302})
"""The receiver will never accept this."""

HINTS: Final[dict[int, str]] = {
    801: "correct user and password of the pipe",
    802: "correct user and password of the pipe",
    803: "grant the privilege to the user of the pipe at the receiver",
}


class Answer(Protocol):
    """A status: `subStatus` has those of the parts of a request."""

    code: int
    message: str | None
    subStatus: Any  # noqa: N815  (the name of the service)


def is_success(status: Answer) -> bool:
    return status.code in SUCCESS


def failed_parts(status: Answer) -> list[Answer]:
    """Return the statuses that failed: those of the parts of the request if there are any, else the status itself."""
    if is_success(status):
        return []
    parts = list(status.subStatus or ())
    return [part for part in parts if not is_success(part)] or [status]


def status_text(status: Answer) -> str:
    return f"{status.code}: {status.message or 'no message'}"


def status_error(node: object, action: str, status: Answer) -> Error:
    """Return the error of a status: terminal if another try cannot help.

    Args:
        node: The server that answered.
        action: What it was asked for, as an infinitive.
        status: A status that is no success.
    """
    message = f"IoTDB at {node} failed to {action}: {status_text(status)}"
    hint = HINTS.get(status.code, "")
    if status.code in ACCESS:
        return ConfigurationError(message, hint=hint or "check user and privileges at the receiver")
    if status.code in UNSUPPORTED:
        return NotSupportedError(message, hint="the receiver has to be IoTDB 1.3 or newer")
    if status.code in REJECTED:
        return IntegrityError(message, hint="the receiver rejects this for good: change its schema, or what the pipe sends")
    return OperationalError(message, hint="see the log of the receiver")


def check_status(node: object, action: str, status: Answer) -> None:
    """Raise the error of a status, unless it is a success."""
    for part in failed_parts(status)[:1]:
        raise status_error(node, action, part)


def is_repeated(category: str, status: Answer) -> bool:
    """Return whether a statement failed since it has had its effect before.

    Args:
        category: What the statement does, such as `schema.database.create`.
        status: The failure.
    """
    text = (status.message or "").lower()
    if category.startswith("schema."):
        # A later statement of those that are sent again may have removed what this one is about.
        is_gone = status.code in DOES_NOT_EXIST or (status.code == METADATA_ERROR and any(part in text for part in MISSING))
        return is_gone or status.code in ALREADY_EXISTS or (status.code == METADATA_ERROR and "already" in text)
    if category.rpartition(".")[2] in ("drop", "delete", "revoke", "unset", "deactivate"):
        return status.code in DOES_NOT_EXIST
    return status.code in ALREADY_EXISTS or (status.code == METADATA_ERROR and "already" in text)
