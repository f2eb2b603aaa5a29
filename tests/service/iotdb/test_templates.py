"""Device templates: what they create, extend and forbid."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.errors import Error, ExistsError, IntegrityError, NotFoundError, ProgrammingError, TypeMismatchError
from headrace.model.failpoints import armed

TEMPLATE = "create device template t1 (s1 INT64, s2 DOUBLE encoding=RLE compressor=SNAPPY)"
ALIGNED = "create device template t2 aligned (s1 INT64, s2 DOUBLE)"


TEMPLATES = ("create database root.plant", TEMPLATE, ALIGNED)


@pytest.fixture
def plant(connection: headrace.Connection) -> headrace.Connection:
    """The connection with `root.plant` and the templates `t1` and `t2`."""
    run(connection, *TEMPLATES)
    return connection


def run(connection: headrace.Connection, *statements: str) -> None:
    for statement in statements:
        connection.execute(statement)


def fetch(connection: headrace.Connection, sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()


def first(connection: headrace.Connection, sql: str) -> list[Any]:
    return [row[0] for row in fetch(connection, sql)]


def storage_of(connection: headrace.Connection, pattern: str) -> list[tuple[Any, ...]]:
    """Path, type, encoding and compression of each series."""
    return [(row[0], row[3], row[4], row[5]) for row in fetch(connection, f"show timeseries {pattern}")]


def test_templates_are_listed_in_the_order_of_iotdb(plant: headrace.Connection) -> None:
    run(plant, "create device template t_e", "create device template `t 9` (s1 INT32)")
    assert first(plant, "show device templates") == ["t_e", "t 9", "t1", "t2"]
    run(plant, "drop device template `t 9`", "drop schema template t_e")
    assert first(plant, "show schema templates") == ["t1", "t2"]


def test_the_measurements_of_a_template_are_shown(plant: headrace.Connection) -> None:
    cursor = plant.execute("show nodes in device template t1")
    assert [column[0] for column in cursor.description or ()] == ["ChildNodes", "DataType", "Encoding", "Compression"]
    assert cursor.fetchall() == [("s1", "INT64", "TS_2DIFF", "LZ4"), ("s2", "DOUBLE", "RLE", "SNAPPY")]


def test_measurements_have_the_order_of_a_concurrent_hash_map(plant: headrace.Connection) -> None:
    names = ["temperature", "status", "x", "hardware", "speed", "s1", "a", "b", "c", "d", "e", "f", "g", "h"]
    ordered = ["a", "b", "c", "d", "e", "f", "g", "h", "speed", "temperature", "x", "s1", "status", "hardware"]
    run(plant, f"create device template wide ({', '.join(f'{name} INT32' for name in names)})")
    assert first(plant, "show nodes in device template wide") == ordered
    run(plant, "set device template wide to root.plant.d1", "create timeseries using device template on root.plant.d1")
    assert first(plant, "show timeseries root.plant.**") == [f"root.plant.d1.{name}" for name in ordered]
    assert [column[0] for column in plant.execute("select * from root.plant.d1").description or ()][1:] == [
        f"root.plant.d1.{name}" for name in ordered
    ]


def test_activation_creates_the_series_of_the_template(plant: headrace.Connection) -> None:
    run(plant, "set device template t1 to root.plant.d1", "set device template t2 to root.plant.d2")
    assert fetch(plant, "show devices") == fetch(plant, "show timeseries") == []
    run(
        plant,
        "create timeseries using device template on root.plant.d1",
        "create timeseries of device template on root.plant.d1.sub",
        "create timeseries of schema template on root.plant.d2",
    )
    assert fetch(plant, "show devices root.plant.**") == [
        ("root.plant.d1", "false", "t1", "INF"),
        ("root.plant.d1.sub", "false", "t1", "INF"),
        ("root.plant.d2", "true", "t2", "INF"),
    ]
    assert storage_of(plant, "root.plant.**") == [
        ("root.plant.d1.sub.s1", "INT64", "TS_2DIFF", "LZ4"),
        ("root.plant.d1.sub.s2", "DOUBLE", "RLE", "SNAPPY"),
        ("root.plant.d1.s1", "INT64", "TS_2DIFF", "LZ4"),
        ("root.plant.d1.s2", "DOUBLE", "RLE", "SNAPPY"),
        ("root.plant.d2.s1", "INT64", "TS_2DIFF", "LZ4"),
        ("root.plant.d2.s2", "DOUBLE", "GORILLA", "LZ4"),
    ]
    assert fetch(plant, "show child paths root.plant.d1") == [("root.plant.d1.sub", "DEVICE")]
    assert first(plant, "show paths set device template t1") == ["root.plant.d1"]
    assert first(plant, "show paths using device template t1") == ["root.plant.d1", "root.plant.d1.sub"]
    assert first(plant, "show paths root.plant.d1.** using device template t1") == ["root.plant.d1.sub"]
    assert first(plant, "show paths using device template nope") == []


def test_an_insert_activates_the_template(plant: headrace.Connection) -> None:
    run(plant, "set device template t1 to root.plant.d1")
    plant.execute("insert into root.plant.d1.auto(time, s1) aligned values (1, 5)")
    assert fetch(plant, "show devices") == [("root.plant.d1.auto", "false", "t1", "INF")]
    assert fetch(plant, "select s1, s2 from root.plant.d1.auto align by device")[0][1:] == ("root.plant.d1.auto", 5, None)
    assert "activate device template t1 on root.plant.d1.more" in str(
        fetch(plant, "explain insert into root.plant.d1.more(time, s1) values (1, 5)")
    )


def test_an_insert_of_other_measurements_extends_the_template(plant: headrace.Connection) -> None:
    run(plant, "set device template t1 to root.plant.d1", "set device template t1 to root.plant.d2")
    run(plant, "create timeseries using device template on root.plant.d1")
    plant.execute("insert into root.plant.d2(time, s1, s9, s10) values (1, 5, null, true)")
    nodes = [("s10", "BOOLEAN", "RLE", "LZ4"), ("s1", "INT64", "TS_2DIFF", "LZ4"), ("s2", "DOUBLE", "RLE", "SNAPPY")]
    assert fetch(plant, "show nodes in device template t1") == nodes
    assert storage_of(plant, "root.plant.**") == [
        (f"root.plant.{device}.{name}", *rest) for device in ("d1", "d2") for name, *rest in nodes
    ]
    plant.execute("insert into root.plant.d1(time, s10) values (2, false)")
    assert [row[1:] for row in fetch(plant, "select s10 from root.plant.* align by device")] == [
        ("root.plant.d1", False),
        ("root.plant.d2", True),
    ]


def test_into_activates_and_extends_the_template(plant: headrace.Connection) -> None:
    run(plant, "set device template t1 to root.plant.d1", "insert into root.plant.d1(time, s1) values (1, 5)")
    plant.execute("select s1, s1 into root.plant.d1.copy(s1, s20) from root.plant.d1")
    assert fetch(plant, "show devices root.plant.d1.**") == [("root.plant.d1.copy", "false", "t1", "INF")]
    assert first(plant, "show nodes in device template t1") == ["s20", "s1", "s2"]
    assert [row[1:] for row in fetch(plant, "select s1, s20 from root.plant.d1.copy align by device")] == [
        ("root.plant.d1.copy", 5, 5)
    ]


def test_into_does_not_write_text_to_a_number_of_a_template(plant: headrace.Connection) -> None:
    run(plant, "set device template t1 to root.plant.d1", "insert into root.plant.d2(time, s1) values (1, 'on')")
    with pytest.raises(TypeMismatchError, match="device template t1 has s1 with type INT64"):
        plant.execute("select s1 into root.plant.d1(s1) from root.plant.d2")
    assert first(plant, "show devices") == ["root.plant.d2"]


def test_a_value_that_does_not_fit_changes_nothing(plant: headrace.Connection) -> None:
    run(plant, "set device template t1 to root.plant.d1")
    with pytest.raises(TypeMismatchError, match="registered type INT64"):
        plant.execute("insert into root.plant.d1(time, s1) values (1, 'abc')")
    assert fetch(plant, "show devices") == []


def test_a_template_is_altered_with_its_devices(plant: headrace.Connection) -> None:
    run(plant, "set device template t1 to root.plant.d1", "create timeseries using device template on root.plant.d1")
    plant.execute("alter device template t1 add (s3 INT32 encoding=PLAIN, s4 TEXT)")
    assert storage_of(plant, "root.plant.**") == [
        ("root.plant.d1.s3", "INT32", "PLAIN", "LZ4"),
        ("root.plant.d1.s4", "TEXT", "PLAIN", "LZ4"),
        ("root.plant.d1.s1", "INT64", "TS_2DIFF", "LZ4"),
        ("root.plant.d1.s2", "DOUBLE", "RLE", "SNAPPY"),
    ]
    plant.execute("insert into root.plant.d1(time, s3, s4) values (1, 7, 'on')")
    assert [row[1:] for row in fetch(plant, "select s3, s4 from root.plant.d1")] == [(7, "on")]


def test_an_empty_template_has_devices(plant: headrace.Connection) -> None:
    run(plant, "create device template e", "set device template e to root.plant.d1")
    plant.execute("create timeseries using device template on root.plant.d1")
    assert fetch(plant, "show nodes in device template e") == fetch(plant, "show timeseries") == []
    assert fetch(plant, "show devices") == [("root.plant.d1", "false", "e", "INF")]
    assert fetch(plant, "count devices") == [(1,)]
    plant.execute("alter device template e add (s1 INT32)")
    assert first(plant, "show timeseries") == ["root.plant.d1.s1"]
    run(plant, "deactivate device template e from root.plant.d1", "unset device template e from root.plant.d1")
    assert first(plant, "show paths set device template e") == []


def test_deactivation_removes_the_series_with_their_values(plant: headrace.Connection) -> None:
    run(plant, "set device template t1 to root.plant.d1", "set device template t2 to root.plant.d2")
    run(
        plant,
        "insert into root.plant.d1(time, s1) values (1, 5)",
        "insert into root.plant.d1.sub(time, s1) values (1, 6)",
        "insert into root.plant.d2(time, s1) values (1, 7)",
    )
    plant.execute("delete timeseries of device template t1 from root.plant.d1.*")
    assert first(plant, "show devices") == ["root.plant.d1", "root.plant.d2"]
    plant.execute("deactivate device template from root.plant.**")
    assert fetch(plant, "show devices") == []
    plant.execute("create timeseries using device template on root.plant.d1")
    assert fetch(plant, "select * from root.plant.**") == []
    plant.execute("insert into root.plant.d1(time, s2) values (2, 1)")
    assert [row[1:] for row in fetch(plant, "select s1, s2 from root.plant.d1")] == [(None, 1.0)]


def test_a_deleted_database_takes_its_paths_along(plant: headrace.Connection) -> None:
    run(plant, "set device template t1 to root.plant", "insert into root.plant(time, s1) values (1, 5)")
    with pytest.raises(IntegrityError, match=r"^\[INTEGRITY\] 507: Template \[t1\] has been set on MTree, cannot be dropped now"):
        plant.execute("drop device template t1")
    plant.execute("delete database root.plant")
    assert first(plant, "show paths set device template t1") == []
    plant.execute("drop device template t1")


def test_another_database_has_columns_of_its_own(plant: headrace.Connection) -> None:
    run(plant, "create database root.other", "create timeseries root.other.x.s1 with datatype=TEXT")
    run(plant, "set device template t1 to root.other.d1", "set device template t1 to root.plant.d1")
    run(plant, "insert into root.other.d1(time, s1) values (1, 5)", "insert into root.plant.d1(time, s1, s3) values (1, 6, 7)")
    run(plant, "insert into root.other.d1(time, s3) values (1, 8)", "insert into root.other.x(time, s1) values (1, 'on')")
    assert [row[1:] for row in fetch(plant, "select s1, s3 from root.*.d1 align by device")] == [
        ("root.other.d1", 5, 8.0),
        ("root.plant.d1", 6, 7.0),
    ]
    assert [row[1:] for row in fetch(plant, "select s1 from root.other.x")] == [("on",)]


@pytest.mark.parametrize("pattern", ["root.plant.**", "root.**.s1", "root.plant.d1.s1"])
def test_series_of_a_template_are_not_deleted_alone(plant: headrace.Connection, pattern: str) -> None:
    run(plant, "set device template t1 to root.plant.d1", "insert into root.plant.d1(time, s1) values (1, 5)")
    with pytest.raises(NotFoundError, match=r"508: .* does not exist or is represented by device template"):
        plant.execute(f"delete timeseries {pattern}")
    run(plant, "create timeseries root.plant.free.s1 with datatype=INT32")
    if "*" in pattern:
        plant.execute(f"delete timeseries {pattern}")
        assert first(plant, "show devices") == ["root.plant.d1"]


REFUSED = {
    "create device template t1 (s1 INT32)": (ExistsError, "507: Duplicated template name: t1"),
    "create device template t9 (s1 TEXT encoding=GORILLA)": (
        ProgrammingError,
        "510: create template error -encoding GORILLA does not support TEXT",
    ),
    "create device template t9 (s1 INT32, s1 INT64)": (ProgrammingError, "509: Path duplicated: s1 is not a legal path"),
    "show nodes in device template nope": (NotFoundError, "507: Template nope does not exist"),
    "show paths set device template nope": (NotFoundError, "305: Template nope does not exist"),
    "drop device template nope": (NotFoundError, "507: Template nope does not exist"),
    "drop device template t1": (IntegrityError, "507: Template [t1] has been set on MTree, cannot be dropped now."),
    "set device template nope to root.plant.d9": (NotFoundError, "507: Template nope does not exist"),
    "set device template t1 to root.plant.d1": (ExistsError, "507: Template already exists on root.plant.d1"),
    "set device template t2 to root.plant.d1.x": (ExistsError, "507: Template already exists on root.plant.d1"),
    "set device template t2 to root.plant": (ExistsError, "507: Template already exists on root.plant.d1"),
    "set device template t1 to root.new.a": (
        NotFoundError,
        "500: Database is not set for current seriesPath: [root.new.a]",
    ),
    "set device template t1 to root.plant.free": (
        ExistsError,
        "516: Cannot set device template [t1] to path [root.plant.free] since there's timeseries under path [root.plant.free].",
    ),
    "set device template t1 to root.plant.free.s1": (
        ExistsError,
        "516: Cannot set device template [t1] to path [root.plant.free.s1] since there's timeseries under path "
        "[root.plant.free.s1].",
    ),
    "set device template t1 to root.plant.*": (
        ProgrammingError,
        "509: root.plant.* is not a legal path, because * is an illegal name.",
    ),
    "create timeseries using device template on root.plant.d1": (ExistsError, "515: Template is in use on root.plant.d1"),
    "create timeseries using device template on root.plant.d9": (
        NotFoundError,
        "507: Path [root.plant.d9] has not been set any template.",
    ),
    "create timeseries using device template on root.plant.*": (
        ProgrammingError,
        "509: root.plant.* is not a legal path, because * is an illegal name.",
    ),
    "unset device template t1 from root.plant.d1": (IntegrityError, "515: Template is in use on root.plant.d1"),
    "unset device template t2 from root.plant.d1": (NotFoundError, "513: No template on root.plant.d1"),
    "unset device template nope from root.plant.d1": (NotFoundError, "507: Template nope does not exist"),
    "deactivate device template t2 from root.plant.d1": (
        NotFoundError,
        "513: Device Template t2 is not set on any prefix path of [root.plant.d1]",
    ),
    "deactivate device template from root.none.**": (
        NotFoundError,
        "513: Device Template * is not set on any prefix path of [root.none.**]",
    ),
    "deactivate device template t1 from root.plant.d1.x.*": (
        NotFoundError,
        "524: Target Device Template is not activated on any path matched by given path pattern",
    ),
    "alter device template nope add (s1 INT32)": (NotFoundError, "507: Template nope does not exist"),
    "alter device template t1 add (s1 INT32)": (
        ExistsError,
        "527: Measurement [s1] already exist in schemaengine template t1",
    ),
    "alter device template t1 add (s4 INT32, s4 INT32)": (
        ProgrammingError,
        "507: Duplicated measurement [s4] in device template alter request",
    ),
    "alter device template t1 add (s4 INT32 encoding=DICTIONARY)": (
        ProgrammingError,
        "507: encoding DICTIONARY does not support INT32",
    ),
    "create timeseries root.plant.d1.s9 with datatype=INT32": (
        ExistsError,
        "516: Cannot create timeseries [root.plant.d1.s9] since device template [t1] already set on path [root.plant.d1].",
    ),
    "create aligned timeseries root.plant.d1.q(s9 INT32, s10 INT32)": (
        ExistsError,
        "516: Cannot create timeseries [root.plant.d1.q[s9, s10]] since device template [t1] already set on path [root.plant.d1].",
    ),
    "create timeseries root.plant.deep.s1 with datatype=INT32": (
        ExistsError,
        "516: Cannot create timeseries [root.plant.deep.s1] since device template [t2] already set on path [root.plant.deep.s1.x].",
    ),
    "alter timeseries root.plant.d1.s1 upsert tags(a=b)": (
        ProgrammingError,
        "516: Cannot alter template timeseries [root.plant.d1.s1] since device template [t1] already set on path [root.plant.d1].",
    ),
    "create timeseries root.plant.free.s2 with datatype=TEXT, encoding=RLE": (
        ProgrammingError,
        "507: encoding RLE does not support TEXT",
    ),
}


USES = (
    "set device template t1 to root.plant.d1",
    "create timeseries using device template on root.plant.d1",
    "set device template t2 to root.plant.deep.s1.x",
    "create timeseries root.plant.free.s1 with datatype=INT32",
)


@pytest.fixture(scope="module")
def used(unchanged: headrace.Connection) -> headrace.Connection:
    """Return what `plant` has, with templates that are set and used."""
    run(unchanged, *TEMPLATES, *USES)
    return unchanged


@pytest.mark.parametrize(("statement", "kind", "message"), [(sql, *refusal) for sql, refusal in REFUSED.items()])
def test_what_iotdb_refuses_is_refused_with_its_words(
    used: headrace.Connection, statement: str, kind: type[Error], message: str
) -> None:
    before = fetch(used, "show timeseries")
    with pytest.raises(kind) as refused:
        used.execute(statement)
    assert refused.value.message == message
    assert refused.value.hint
    assert fetch(used, "show timeseries") == before


@pytest.mark.parametrize("point", ["service.tree.columns", "service.tree.template"])
def test_what_a_crash_leaves_is_completed_by_the_same_insert(plant: headrace.Connection, point: str) -> None:
    run(plant, "set device template t1 to root.plant", "create timeseries using device template on root.plant.d0")
    insert = "insert into root.plant.d1(time, s1, s3) values (1, 5, 6)"
    with armed(f"{point}:1:raise"), pytest.raises(Error, match="failpoint"):
        plant.execute(insert)
    plant.execute(insert)
    assert [row[1:] for row in fetch(plant, "select s1, s3 from root.plant.d1")] == [(5, 6.0)]
    assert first(plant, "show timeseries root.plant.d0") == []
    assert len(fetch(plant, "show timeseries root.plant.d0.*")) == 3


def test_another_connection_sees_templates(plant: headrace.Connection, tmp_path: Path) -> None:
    with headrace.connect(tmp_path / "home", dialect="iotdb") as other:
        other.execute("set device template t1 to root.plant.d1")
        plant.execute("insert into root.plant.d1(time, s1) values (1, 5)")
        assert fetch(other, "show devices") == [("root.plant.d1", "false", "t1", "INF")]


def test_concurrent_inserts_extend_one_template(plant: headrace.Connection, tmp_path: Path) -> None:
    plant.execute("set device template t1 to root.plant")

    def insert(number: int) -> None:
        with headrace.connect(tmp_path / "home", dialect="iotdb") as own:
            own.execute(f"insert into root.plant.d{number}(time, s1, x{number}) values (1, {number}, {number})")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(insert, range(4)))
    extended = {"s1", "s2", *(f"x{number}" for number in range(4))}
    assert set(first(plant, "show nodes in device template t1")) == extended
    assert len(fetch(plant, "show timeseries root.plant.**")) == 4 * len(extended)
    columns = ", ".join(f"x{number}" for number in range(4))
    rows = [row[2:] for row in fetch(plant, f"select s1, {columns} from root.plant.* align by device")]
    assert rows == [(number, *(float(number) if other == number else None for other in range(4))) for number in range(4)]
