"""What reads bytes from outside, each with valid bytes to begin with."""

from __future__ import annotations

import base64
import io
import json
import lzma
import struct
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory, gettempdir
from typing import Any, Final

import pyarrow as pa
import pyarrow.flight as flight
from cryptography.fernet import Fernet

from headrace.code.packages import holds_module
from headrace.code.protocol import GarbageError, Message, stream_of
from headrace.doors.flight.logins import read_basic
from headrace.doors.iotdb.calls import METHODS, PARAMETERS, check_complete, reads_rows
from headrace.doors.iotdb.tablets import EncodedTablet
from headrace.doors.iotdb.transfers import TABLETS, decompressed
from headrace.doors.iotdb.wire import read_call
from headrace.doors.iotdb.writes import READERS
from headrace.doors.tdengine.access import Access, Credentials
from headrace.doors.tdengine.schemaless.blocks import blocks_of
from headrace.doors.tdengine.schemaless.series import series_of_json, series_of_line
from headrace.doors.tdengine.schemaless.writes import Target as Group
from headrace.doors.tdengine.schemaless.writes import messages_of, needed_types, read_records
from headrace.errors import Error
from headrace.model.access import Principal
from headrace.model.connections import Origin
from headrace.model.time import Precision
from headrace.pipes.formats.codecs import decoder
from headrace.pipes.formats.messages import FormatOptions
from headrace.pipes.formats.records import Problems
from headrace.pipes.iotdb import messages, requests
from headrace.pipes.iotdb.blocks import BlockReader
from headrace.pipes.iotdb.content import Content
from headrace.pipes.iotdb.tablets import encode_tablets
from headrace.runtime.backup import read_manifest
from headrace.runtime.backup_files import Folder
from headrace.runtime.flight_sql import decode_command, decode_request, encode_command
from headrace.runtime.http import Cancellation, Statement, TriggerCall, basic_credentials, parsed
from headrace.settings import load
from headrace.sql import parse
from tests.doors.iotdb.test_pipes import device_rows
from tests.doors.rpc_cases import CALLS, PLAN, frame_of

LINES: Final = (
    b"m,t=1 v=1i 1700000000000000000",
    b'st,t3=t3,t1=3 c1=3i64,c3="pass\\"it",c2=false,c4=4f64,c5=7u8,c7=L"x y",c8=B"\\x98f4" 1626006833639',
    b"m v=1,w=2.5 5\nm\\ x,a\\,b=c\\=d v=t 6\n# a comment\n\nm  v=1",
    "größe,ort=Köln wert=1e3 1".encode(),
)
JSON_ROWS: Final = (
    b'{"metric":"sys.cpu","timestamp":1346846400,"value":18.5,"tags":{"host":"a","n":1,"b":true}}',
    b'[{"metric":"m","timestamp":{"value":1,"type":"ms"},"value":{"value":"x","type":"nchar"},"tags":{"a":{"value":1,"type":"int"}}}]',
    b'{"device":"root.x.d","timestamp":1,"measurements":["a","b"],"values":[1,"x"]}',
    b'{"device":"root.x.d","timestamps":[1,2],"measurements":["a"],"values":[[1],[2]]}',
    b'{"time":"2026-01-01T00:00:00Z","a":1.5,"b":null,"c":"\\u00e4","d":true,"device":"d1"}',
)
CSV_ROWS: Final = (b'time,device,a,b\n1,root.x.d,1,x\n2,root.x.d,,"y,""z"', b"1,2,3", b'"a\nb",1\n')
TELNET: Final = (b"put sys.cpu 1479496100 1.3 host=a dc=lga\nsys.mem 1479496100000 4u8 host=b", b'm 1 "x" a=b')
SQL: Final = {
    "tdengine": (
        b"SELECT _wstart, avg(v), 'it''s' x FROM d.m WHERE a LIKE '%x_' AND ts > now - 1h PARTITION BY tbname INTERVAL(1m)",
        b"CREATE STREAM s TRIGGER AT_ONCE INTO o TAGS(t VARCHAR(9)) AS SELECT _wend, count(*) FROM m SESSION(ts, 1s)",
        b"INSERT INTO t1 USING m TAGS(1, 'x') (ts, v) VALUES (now, 1.5)(1700000000000, NULL) t2 VALUES ('2026-01-01', 0x1F)",
        b"SELECT CASE WHEN a IN (1, 2) THEN cast(b AS BIGINT) ELSE -c END FROM (SELECT * FROM x) ORDER BY 1 LIMIT 5",
    ),
    "iotdb": (
        b"SELECT count(s1), `a.b` + 1 AS x FROM root.plant.**, root.`x y`.* WHERE time > 2026-01-01 GROUP BY ([0, 9), 1ms)",
        b"INSERT INTO root.a.d(time, s1, s2) ALIGNED VALUES (1, 1.5, 'x'), (now(), NULL, true)",
        b"CREATE PIPE p WITH SOURCE ('source.pattern'='root.a') WITH SINK ('sink'='do-nothing-sink')",
        b"SELECT v FROM root.a WHERE v REGEXP '(a|b)+c' AND w LIKE '%x' FILL(previous) ALIGN BY DEVICE",
    ),
}
MANIFEST: Final = json.dumps(
    {
        "backup": {"created": 1, "version": "0.1.0", "databases": 1, "jobs": 1, "files": 2, "bytes": 5, "tables_uri": "/t"},
        "tables": {"a/0.json": {"digest": "0" * 64, "size": 2}},
        "key": None,
        "catalog": {"digest": "1" * 64, "size": 3},
    }
).encode()
SLOW: Final = 0.01
"""Part of what takes milliseconds for an input, mostly for queries of DuckDB."""
ROWS: Final = pa.table({"series": pa.array([0, 1]), "name": ["a", None], "value": [[1.5], []]})


@dataclass(frozen=True, slots=True)
class Target:
    """What reads bytes: `read` raises `errors` at most, and `seeds` are valid. It has `part` times as many inputs as others."""

    read: Callable[[bytes], object]
    seeds: Sequence[bytes]
    errors: tuple[type[Exception], ...] = (Error,)
    part: float = 1.0


def text(content: bytes) -> str:
    """Return any bytes as the text of a header or a statement."""
    return content.decode("utf-8", "replace")


def frames(*, is_compact: bool) -> Iterator[bytes]:
    """Yield a call of each method."""
    for method, values in CALLS.items():
        kind = METHODS[method].parameters[0]
        if isinstance(kind, int):
            continue
        for own in values:
            yield frame_of(method, kind(sessionId=0, **own), is_compact=is_compact)
    yield frame_of(
        "openSession", messages.OpenSession(client_protocol=2, zoneId="UTC", username="root", password="x"), is_compact=is_compact
    )


def read_frame(content: bytes) -> None:
    """Read a call, and the tablets that it writes."""
    reads_rows(content)
    call = read_call(content, PARAMETERS)
    if call.method not in PARAMETERS:
        return
    check_complete(call)
    if call.method in READERS:
        for tablet in READERS[call.method](*call.arguments).tablets:
            if isinstance(tablet, EncodedTablet):
                tablet.decode()


def transfers() -> Iterator[bytes]:
    """Yield requests of pipes, with their type before them."""
    raw = list(encode_tablets(device_rows("root.a.d", aligned=True), Precision.MILLISECOND, 1 << 20))
    yield struct.pack(">h", 2) + PLAN
    yield from (struct.pack(">h", 3) + one for one in raw)
    yield struct.pack(">h", 6) + struct.pack(">iii", 0, 0, len(raw)) + b"".join(raw)


def read_transfer(content: bytes) -> None:
    body = Content(content)
    kind = body.int16()
    if kind in TABLETS:
        TABLETS[kind](body)


def compressed() -> Iterator[bytes]:
    """Yield compressed content with the number of its method before it."""
    plain = b"\1" + struct.pack(">h", 2) + PLAN
    for number, name in requests.CODECS.values():
        yield bytes([number]) + bytes(pa.Codec(name).compress(plain, asbytes=True))
    yield bytes([requests.LZMA2]) + lzma.compress(plain)


def decompress(content: bytes) -> None:
    decompressed([(content[0] if content else 0, len(PLAN) + 3)], content[1:])


def schemaless(name: str, find_series: Callable[[str], object]) -> Callable[[bytes], None]:
    """Return what reads the body of a request as the rows of tables."""

    def read(content: bytes) -> None:
        problems = Problems()
        records = read_records(Group(Principal("u"), "d", name), messages_of([content, b"m,t=1 v=1i 1"], problems), problems)
        needed_types(blocks_of(records, find_series, lambda *_: None, problems))  # type: ignore[arg-type]

    return read


def messages_reader(name: str, **options: Any) -> Callable[[bytes], None]:
    """Return what reads messages of a format."""
    reader = decoder(FormatOptions(name, database="root.x", **options))

    def read(content: bytes) -> None:
        table = pa.table({"id": pa.array([0, 1]), "key": ["d1", None], "value": [text(content), "x"]})
        reader.decode(table)

    return read


def block() -> bytes:
    """Return a block of a result, as servers send it."""
    return (
        struct.pack(">i", 2)
        + b"\1\5"
        + struct.pack(">i", 2)
        + b"\2\1\3\0"
        + struct.pack(">qq", 1, 2)
        + b"\1\x40"
        + struct.pack(">i", 7)
        + b"\0"
        + struct.pack(">i", 1)
        + b"a"
        + struct.pack(">i", 0)
    )


def read_flight(content: bytes) -> None:
    """Read what calls of Flight carry: a command, or the body of an action."""
    for name in ("ActionCreatePreparedStatementRequest", "ActionCancelQueryRequest", "CommandStatementIngest"):
        decode_request(name, content)
    decode_command(content)


def read_flight_info(content: bytes) -> None:
    for endpoint in flight.FlightInfo.deserialize(content).endpoints:
        decode_command(endpoint.ticket.ticket)


def credentials_reader() -> Target:
    """Return what reads the header and the parameters with which clients log in."""
    settings = load(home=Path(gettempdir()), secret_key=Fernet.generate_key().decode())
    access = Access(lambda user, _, origin: Principal(user, origin=str(origin)), settings)

    def read(content: bytes) -> None:
        authorization = content.decode("latin-1")
        basic_credentials(authorization)
        parameters = {"token": authorization}
        with suppress(Error):
            access.verified(Credentials(*read_basic(authorization)))
        with suppress(Error):
            access.verified(access.credentials(authorization, {}))
        with suppress(Error):
            access.verified(access.credentials("", parameters))

    basic, token = base64.b64encode(b"vera:se:cret"), access.token("vera", "se:cret", Origin("fuzz")).encode()
    return Target(read, [b"Basic " + basic, b"Token a:b", b"Taosd " + token, token, basic])


def archive() -> bytes:
    """Return a zip with a module."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as opened:
        opened.writestr("pkg/__init__.py", "class F: ...")
        opened.writestr("größe.py", "x" * 100, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def in_file(read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """Return what reads the content of a file."""

    def run(content: bytes) -> object:
        with NamedTemporaryFile(dir="/dev/shm") as file:
            file.write(content)
            file.flush()
            return read(Path(file.name))

    return run


def in_folder(name: str, read: Callable[[Folder], object]) -> Callable[[bytes], object]:
    """Return what reads a folder with one file."""

    def run(content: bytes) -> object:
        with TemporaryDirectory(dir="/dev/shm") as folder:
            (Path(folder) / name).write_bytes(content)
            return read(Folder.at(folder))

    return run


def read_archive(path: Path) -> bool:
    return holds_module(path, "pkg")


def read_answer(content: bytes) -> pa.Table:
    """Read what a code host answers."""
    return Message({}, content).table()


def read_body(content: bytes) -> None:
    for kind in (Statement, Cancellation, TriggerCall):
        parsed(kind, content)


def statement_reader(dialect: str) -> Callable[[bytes], object]:
    """Return what reads statements."""
    return lambda content: parse(text(content), dialect)


def commands() -> Iterable[bytes]:
    yield encode_command("CommandStatementQuery", query="SELECT 1", transaction_id=b"x")
    yield encode_command("CommandGetTables", catalog="c", table_types=["TABLE"], include_schema=True)
    yield encode_command("CommandStatementIngest", table="t", schema="s", temporary=False)


def targets() -> Mapping[str, Target]:
    """Return what reads bytes, by name."""
    from fastapi import HTTPException

    info = flight.FlightInfo(
        ROWS.schema,
        flight.FlightDescriptor.for_command(b"c"),
        [flight.FlightEndpoint(encode_command("TicketStatementQuery"), [])],
        1,
        1,
    )
    found = {
        "iotdb-binary": Target(read_frame, list(frames(is_compact=False))),
        "iotdb-compact": Target(read_frame, list(frames(is_compact=True))),
        "iotdb-pipe": Target(read_transfer, list(transfers())),
        "iotdb-compressed": Target(decompress, list(compressed())),
        "iotdb-blocks": Target(lambda content: BlockReader(content).read(), [block()]),
        "lines": Target(schemaless("line", series_of_line), LINES, part=SLOW),
        "telnet": Target(schemaless("telnet", series_of_line), TELNET, part=SLOW),
        "opentsdb": Target(schemaless("json", series_of_json), JSON_ROWS, part=SLOW),
        "message-json": Target(messages_reader("json", uses_key=True), JSON_ROWS, part=SLOW),
        "message-csv": Target(messages_reader("csv", device_field="device"), CSV_ROWS),
        "message-line": Target(messages_reader("line"), LINES, part=SLOW),
        "flight": Target(read_flight, list(commands()), (Error, pa.ArrowException)),
        "flight-info": Target(read_flight_info, [info.serialize()], (Error, pa.ArrowException)),
        "http-body": Target(read_body, [b'{"sql":"SELECT 1","max_rows":5,"user":null,"label":"x"}'], (Error, HTTPException)),
        "credentials": credentials_reader(),
        "archive": Target(in_file(read_archive), [archive()]),
        "manifest": Target(in_folder("manifest.json", read_manifest), [MANIFEST]),
        "code-answer": Target(read_answer, [stream_of(ROWS).to_pybytes()], (GarbageError,)),
    }
    statements = {f"sql-{dialect}": Target(statement_reader(dialect), seeds) for dialect, seeds in SQL.items()}
    return found | statements
