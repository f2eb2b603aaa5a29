"""Connections to an snode on another machine by Flight SQL, without access to the catalog or the files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.flight as flight

from headrace import errors
from headrace.runtime.flight_sql import MESSAGES, encode_command
from headrace.runtime.snode_client import subclasses
from headrace.service.appending import open_batches
from headrace.service.connection import Connection
from headrace.service.results import Result
from headrace.service.session import Session
from headrace.service.statement_kinds import returns_rows
from headrace.sql import check_dialect, parse

if TYPE_CHECKING:
    from headrace.settings import Settings

REMOTE_ERROR: Final = re.compile(
    r"\[(?P<code>[A-Z_]+)\] (?P<message>.*?)(?:\nhint: (?P<hint>.*?))?(?:\. (?:Detail|gRPC client debug)|$)", re.DOTALL
)
AWAY: Final = (flight.FlightUnavailableError, flight.FlightTimedOutError)


def open_remote(
    address: str, settings: Settings, dialect: str | None, database: str | None, user: str | None, password: str | None
) -> RemoteConnection:
    """Connect to an snode; see `headrace.connect`.

    Raises:
        AuthenticationError: The user or the password is wrong.
        OperationalError: The snode cannot be reached.
    """
    language = (dialect or settings.dialect).lower()
    check_dialect(language)
    session = RemoteSession(address, language, database, user or settings.login, password or "", settings.tls_certificate)
    return RemoteConnection(cast(Session, session))


class RemoteSession:
    """Runs statements at an snode. Not thread-safe."""

    def __init__(self, address: str, dialect: str, database: str | None, user: str, password: str, trusted: str) -> None:
        """Connect. `trusted` is a PEM file with certificates to trust beside those of the system; empty for none."""
        self.address, self.dialect, self.database, self.user = address, dialect, database, user
        roots = {"tls_root_certs": Path(trusted).read_bytes()} if trusted and urlsplit(address).scheme == "grpc+tls" else {}
        self._client = flight.connect(address, **roots)
        headers = [(b"dialect", dialect.encode()), *([(b"database", database.encode())] if database else [])]
        with remote_errors(self.address, is_connecting=True):
            token = self._client.authenticate_basic_token(user, password, flight.FlightCallOptions(headers=headers))
        self._options = flight.FlightCallOptions(headers=[token, *headers])

    def execute(self, text: str) -> Result:
        """Run one statement.

        Raises:
            Error: The snode raised it; `OperationalError` if it could not be reached.
        """
        with remote_errors(self.address, text):
            if returns_rows(parse(text, self.dialect)):
                return Result(self._query(text))
            return Result(affected=self._put("CommandStatementUpdate", pa.schema([]).empty_table(), query=text))

    def append(self, data: object, into: str) -> int:
        """Write rows into a table or a tree."""
        database, _, table = into.rpartition(".")
        with remote_errors(self.address):
            rows = open_batches(data).read_all()
            return self._put("CommandStatementIngest", rows, table=table, **({"schema": database} if database else {}))

    def close(self) -> None:
        """Close the session at the snode, which ends it itself if it cannot be reached."""
        with suppress(flight.FlightError, pa.ArrowException):
            list(self._client.do_action(flight.Action("CloseSession", b""), self._options))
        self._client.close()

    def _query(self, text: str) -> pa.Table | None:
        descriptor = flight.FlightDescriptor.for_command(encode_command("CommandStatementQuery", query=text))
        info = self._client.get_flight_info(descriptor, self._options)
        return self._client.do_get(info.endpoints[0].ticket, self._options).read_all()

    def _put(self, command: str, rows: pa.Table, **values: Any) -> int:
        descriptor = flight.FlightDescriptor.for_command(encode_command(command, **values))
        writer, reader = self._client.do_put(descriptor, rows.schema, self._options)
        with writer:
            writer.write_table(rows)
            writer.done_writing()
            answer = reader.read()
        return -1 if answer is None else int(MESSAGES["DoPutUpdateResult"].FromString(answer.to_pybytes()).record_count)


class RemoteConnection(Connection):
    """A connection to an snode on another machine. What needs the home's files has to be done by commands there."""

    def append(self, data: object, into: str, *, subtable: str | None = None, device: str | None = None) -> int:
        """Write rows that the program holds; name subtables by a column `tbname`, and devices by a column `device`."""
        self._open()
        if subtable is not None or device is not None:
            raise errors.NotSupportedError(
                "a remote connection takes no subtable and no device", hint="add a column tbname, or device, to the rows"
            )
        return cast(RemoteSession, self.session).append(data, into)

    def load(self, *_: Any, **__: Any) -> NoReturn:
        """Raise `NotSupportedError`: the snode does not read files of this machine."""
        raise not_remote("load", "append the rows, or run `headrace load` where the home is")

    def verify(self, *_: Any, **__: Any) -> NoReturn:
        """Raise `NotSupportedError`: this takes the files."""
        raise not_remote("verify", "run `headrace verify` where the home is")

    def backfill(self, *_: Any, **__: Any) -> NoReturn:
        """Raise `NotSupportedError`: this takes the files."""
        raise not_remote("backfill", "trigger the DAG of the stream, or run `headrace backfill` where the home is")

    def settle(self, report: Callable[[str], None] = lambda _: None) -> None:  # noqa: ARG002
        """Raise `NotSupportedError`: the snode runs the streams."""
        raise not_remote("settle", "wait until SHOW STREAMS shows no lag")

    def close(self) -> None:
        """Close the connection. Idempotent."""
        if not self._closed:
            self._closed = True
            self.session.close()


def not_remote(name: str, hint: str) -> errors.NotSupportedError:
    return errors.NotSupportedError(f"{name} needs the files of the home, which a remote connection has not", hint=hint)


@contextmanager
def remote_errors(address: str, sql: str | None = None, *, is_connecting: bool = False) -> Iterator[None]:
    """Raise errors of an snode as our own."""
    try:
        yield
    except (flight.FlightError, pa.ArrowException) as error:
        raise translate(error, address, sql, is_connecting) from None


def translate(error: Exception, address: str, sql: str | None, is_connecting: bool) -> errors.Error:
    """Return our error for one of Flight, whose text has code, message and hint if the snode raised it."""
    found = REMOTE_ERROR.search(str(error))
    if found is None:
        if is_connecting or isinstance(error, AWAY):
            return errors.OperationalError(
                f"{address} cannot be reached: {error}", hint="check the address, and that an snode runs there"
            )
        return errors.OperationalError(f"{address} failed: {error}", hint="see the log of the snode", sql=sql)
    classes = {kind.code: kind for kind in subclasses(errors.Error)}
    kind = classes.get(found["code"], errors.OperationalError)
    raised = kind(found["message"].strip(), hint=(found["hint"] or "").strip(), sql=sql)
    raised.code = found["code"]
    return raised
