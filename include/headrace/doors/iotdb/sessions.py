"""Calls about sessions: log in and out, time zones, properties of the server."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headrace.doors.iotdb.frames import MAX_FRAME_BYTES
from headrace.doors.iotdb.statuses import success
from headrace.errors import Error, ProgrammingError
from headrace.pipes.iotdb import messages
from headrace.pipes.iotdb.messages import PROTOCOL_VERSION

if TYPE_CHECKING:
    from headrace.doors.iotdb.client import Client
    from headrace.service.session import Session

VERSION: Final = "1.3.4"
"""The release of IoTDB whose clients are served."""
PRECISION: Final = "ms"
AGGREGATIONS: Final = (
    "count",
    "avg",
    "sum",
    "first_value",
    "last_value",
    "max_time",
    "min_time",
    "max_value",
    "min_value",
    "extreme",
)
ZONE_ERROR: Final = 703
OFFSET: Final = re.compile(r"(?:GMT|UTC)?([+-])(\d{1,2})(?::?00)?")


def open_session(client: Client, request: messages.OpenSession) -> messages.Message:
    """Log in."""
    zone = zone_name(request.zoneId) if request.zoneId else None
    connection = client.log_in(request.username or "", request.password or "")
    if zone is not None:
        use_zone(connection.session, zone)
    return messages.SessionAnswer(
        status=success("Login successfully"), serverProtocolVersion=PROTOCOL_VERSION, sessionId=connection.id, configuration={}
    )


def close_session(client: Client, _: messages.CloseSession) -> messages.Message:
    """Log out."""
    client.log_out()
    return success()


def zone_name(text: str) -> str:
    """Return the name of a time zone, also of one that is an offset of whole hours.

    Raises:
        ProgrammingError: There is no such zone.
    """
    match = OFFSET.fullmatch(text)
    name = "UTC" if text == "Z" else text
    if match is not None:
        sign = "-" if match[1] == "+" else "+"
        name = f"Etc/GMT{sign}{int(match[2])}"
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise unknown_zone(text) from None
    return name


def unknown_zone(text: str) -> Error:
    error = ProgrammingError(f"Unknown time-zone ID: {text}", hint="use a name such as Europe/Vienna, or an offset of whole hours")
    return error.with_status(ZONE_ERROR)


def use_zone(session: Session, zone: str) -> None:
    """Read and write instants of a session in a time zone."""
    settings = session.context.settings.replace({"timezone": zone})
    session.context = replace(session.context, settings=settings)


def set_zone(client: Client, request: messages.SetZone) -> messages.Message:
    """Set the time zone."""
    use_zone(client.session, zone_name(request.timeZone or ""))
    return success()


def get_zone(client: Client, _: int) -> messages.Message:
    """Return the time zone."""
    return messages.ZoneAnswer(status=success(), timeZone=client.session.context.settings.timezone)


def get_properties(_: Client) -> messages.Message:
    """Return what the server says of itself."""
    return messages.ServerProperties(
        version=VERSION,
        supportedTimeAggregationOperations=list(AGGREGATIONS),
        timestampPrecision=PRECISION,
        thriftMaxFrameSize=MAX_FRAME_BYTES,
        isReadOnly=False,
        buildInfo="Headrace",
    )


def request_statement(client: Client, _: int) -> int:
    """Return the number of a statement."""
    client.connection.check()
    return client.open_statement()


def list_connections(client: Client) -> messages.Message:
    """Return the open connections of the user."""
    user = client.connection.user
    own = [one for one in client.gate.connections() if one.user == user]
    infos = [messages.ConnectionInfo(userName=one.user, logInTime=one.opened, connectionId=str(one.id), type=0) for one in own]
    return messages.ConnectionsAnswer(connectionInfoList=infos)


def backup_configuration(_: Client) -> messages.Message:
    """Return that writes are not sent elsewhere."""
    return messages.BackupAnswer(status=success(), enableOperationSync=False)


def answer_test(_: Client) -> messages.Message:
    """Answer."""
    return success()
