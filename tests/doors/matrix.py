"""Two homes with all doors open, for a user who may read little of them: a full one, and one that has only what that user may read.

What the user may not read is as if it did not exist. So through each door, the answers of both homes have to be equal.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.flight as flight
from fastapi.testclient import TestClient

import headrace
from headrace.doors.flight import FlightDoor
from headrace.doors.gate import Gate
from headrace.doors.iotdb.batching import answer_batch
from headrace.doors.iotdb.calls import METHODS, answer
from headrace.doors.iotdb.client import Client
from headrace.doors.iotdb.wire import Call
from headrace.doors.iotdb.writes import READERS
from headrace.doors.options import DoorOptions
from headrace.doors.tdengine.access import Access
from headrace.doors.tdengine.app import create_app as create_rest
from headrace.model.clock import ManualClock
from headrace.model.connections import Origin
from headrace.queries.running import RunningQueries
from headrace.runtime.flight_sql import encode_command
from headrace.runtime.http import Guard, Health, create_app
from headrace.service.authentication import authenticator
from headrace.service.endpoint import sql_runner
from headrace.settings import load
from headrace.web.app import create_app as create_page
from tests.airflow.web_page import ACTION, Rights
from tests.doors.rpc_cases import frame_of
from tests.support.living_snode import living_snode
from tests.support.statement_cases import PEOPLE, prepare_tables, prepare_tree

START: Final = 1_700_000_000_000
USER, PASSWORD, TOKEN = "vera", "secret12", "a token"
FROM_PAGE: Final = {**ACTION, "Sec-Fetch-Site": "same-origin"}
"""The headers of a change of the page."""
PAGE_SNODE: Final = "page"
"""The snode that runs statements of the page. The others find none that is alive, and so run in this process."""
NOT_COMPARED: Final = ("audit_log", "sqlite_sequence")
"""Tables of the catalog that a refusal changes."""
VISIBLE: Final = ("create database d", "create table d.seen (ts timestamp, a int)", "insert into d.seen values (0, 1)")
VISIBLE_TREE: Final = ("insert into root.seen.a(time, s1) values (1, 1)",)
GRANTS: Final = ("grant READ on root.seen.** to user vera",)
HIDDEN: Final = (
    "create stable d.readings (ts timestamp, a int, b double) tags (place varchar(20), floor int)",
    "create table d.dev1 using d.readings tags ('north', 1) d.dev2 using d.readings tags ('south', 2)",
    "create database other",
    "create table other.t (ts timestamp, a int)",
    "insert into d.dev1 values (0, 1, 1.5) (1000, 2, 2.5)",
)
HIDDEN_ROWS: Final = ("insert into plain values (0, 1)",)
HIDDEN_POINTS: Final = (
    "insert into root.plant.line1(time, s1) values (1, 1)",
    "create timeseries root.plant.line1.label with datatype=TEXT tags(unit=rpm)",
    "set ttl to root.plant.line1.** 3600000000000",
)


@dataclass(frozen=True)
class Home:
    """A home with its doors."""

    root: headrace.Connection
    gate: Gate
    embedded: Mapping[str, headrace.Connection]
    remote: Mapping[str, headrace.Connection]
    http: TestClient
    rest: TestClient
    page: TestClient
    rpc: Client

    def state(self) -> dict[str, Any]:
        """Return what is in the catalog, and the names of all files of tables."""
        path = self.root.session.context.settings.home_path
        with closing(sqlite3.connect(f"file:{path / 'catalog.db'}?mode=ro", uri=True)) as database:
            names = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
            rows = {name: database.execute(f'select * from "{name}"').fetchall() for name in names if name not in NOT_COMPARED}
        return rows | {"files": sorted(str(file.relative_to(path)) for file in (path / "warehouse").rglob("*"))}


def prepare(root: headrace.Connection, tree: headrace.Connection, *, full: bool) -> None:
    """Create what vera may read, and in a full home all that the statements of the matrix name beside it."""
    for sql in VISIBLE:
        root.execute(sql)
    for sql in (*VISIBLE_TREE, *PEOPLE, *GRANTS):
        tree.execute(sql)
    root.execute("grant read on d.seen to vera")
    root.execute("use d")
    if full:
        for sql in HIDDEN:
            root.execute(sql)
        prepare_tables(root)
        prepare_tree(tree)
        for connection, statements in ((root, HIDDEN_ROWS), (tree, HIDDEN_POINTS)):
            for sql in statements:
                connection.execute(sql)


@contextmanager
def opened_home(path: Path, *, full: bool) -> Iterator[Home]:
    """Open a home with all of its doors."""
    settings, clock = load(home=path, http_token=TOKEN), ManualClock(START)
    with ExitStack() as stack:

        def connect(dialect: str, user: str | None = None, password: str | None = None) -> headrace.Connection:
            opened = headrace.connect(settings=settings, clock=clock, dialect=dialect, database="d", user=user, password=password)
            return stack.enter_context(opened)

        root = connect("tdengine")
        prepare(root, connect("iotdb"), full=full)
        context = root.session.context
        queries = RunningQueries(context)
        gate = Gate(context, authenticator(context), queries)
        door = FlightDoor(gate, DoorOptions("127.0.0.1", 0))
        door.start()
        stack.callback(door.stop)
        run_sql = sql_runner(context, queries=queries)
        http = create_app(Guard(TOKEN), run_sql, lambda: Health(True, {}), lambda: "", authenticate=gate.authenticate)
        access = Access(gate.authenticate, context.settings)
        page_settings = settings.replace({"snode": PAGE_SNODE})
        stack.enter_context(living_snode(context, PAGE_SNODE))
        rpc = Client(gate, Origin("iotdb", "matrix"))
        rpc.log_in(USER, PASSWORD)
        yield Home(
            root,
            gate,
            {dialect: connect(dialect, USER, PASSWORD) for dialect in ("tdengine", "iotdb")},
            {dialect: stack.enter_context(remote(door, dialect)) for dialect in ("tdengine", "iotdb")},
            TestClient(http),
            TestClient(create_rest(gate, access)[0]),
            stack.enter_context(TestClient(create_page(Rights(), page_settings, clock=clock), raise_server_exceptions=False)),
            rpc,
        )


def remote(door: FlightDoor, dialect: str) -> headrace.Connection:
    """Connect through Flight SQL."""
    return headrace.connect(f"grpc://{door.address}", dialect=dialect, database="d", user=USER, password=PASSWORD)


Ask = Callable[[Home, str, str], object]
"""Runs a statement in a dialect, and returns all that a client sees of the outcome."""


def outcome(connection: headrace.Connection, sql: str) -> object:
    """Return columns and rows of a statement, or its error."""
    try:
        cursor = connection.execute(sql)
    except headrace.Error as error:
        return error.code, str(error)
    return cursor.description, cursor.rowcount, cursor.fetchall() if cursor.description else None


def ask_embedded(home: Home, dialect: str, sql: str) -> object:
    return outcome(home.embedded[dialect], sql)


def ask_remote(home: Home, dialect: str, sql: str) -> object:
    return outcome(home.remote[dialect], sql)


def ask_http(home: Home, dialect: str, sql: str) -> object:
    body = {"sql": sql, "dialect": dialect, "database": "d", "user": USER}
    reply = home.http.post("/sql", json=body, headers={"Authorization": f"Bearer {TOKEN}"})
    return reply.status_code, reply.text


def ask_rest(home: Home, _: str, sql: str) -> object:
    reply = home.rest.post("/rest/sql/d", content=sql, auth=(USER, PASSWORD))
    return reply.status_code, reply.text


def call(home: Home, method: str, **values: Any) -> bytes:
    """Return the answer to a call of IoTDB's RPC, as it is sent."""
    parameters = METHODS[method].parameters
    arguments = tuple(kind(sessionId=0, **values) if isinstance(kind, type) else 0 for kind in parameters[:1])
    arguments += tuple(values.values()) if len(parameters) > 1 else ()
    if method in READERS:  # which the door answers in batches
        (reply,) = answer_batch([(home.rpc, frame_of(method, arguments[0]))])
        assert isinstance(reply, bytes)
        return reply
    return answer(home.rpc, Call(method, 1, arguments, is_compact=False))


def ask_rpc(home: Home, _: str, sql: str) -> object:
    return call(home, "executeStatementV2", statement=sql, statementId=1, fetchSize=100)


def ask_page(home: Home, dialect: str, sql: str) -> tuple[int, str]:
    """Run a statement in the page's worksheet."""
    body = {"sql": sql, "dialect": dialect, "database": "d", "id": "matrix"}
    reply = home.page.post("/api/worksheet/run", json=body, headers=FROM_PAGE)
    return reply.status_code, reply.text


DOORS: Final[Mapping[str, tuple[Ask, tuple[str, ...]]]] = {
    "embedded": (ask_embedded, ("tdengine", "iotdb")),
    "http": (ask_http, ("tdengine", "iotdb")),
    "flight": (ask_remote, ("tdengine", "iotdb")),
    "tdengine": (ask_rest, ("tdengine",)),
    "iotdb": (ask_rpc, ("iotdb",)),
    "page": (ask_page, ("tdengine", "iotdb")),
}
"""The doors for statements, with the dialects that they speak."""


def flight_metadata(home: Home, dialect: str, command: str, **values: Any) -> pa.Table:
    """Return what Flight SQL answers about databases and tables."""
    session = home.remote[dialect].session
    client, options = session._client, session._options  # type: ignore[attr-defined]
    descriptor = flight.FlightDescriptor.for_command(encode_command(command, **values))
    info = client.get_flight_info(descriptor, options)
    return client.do_get(info.endpoints[0].ticket, options).read_all()
