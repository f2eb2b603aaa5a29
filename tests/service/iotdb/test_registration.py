"""CREATE FUNCTION of a user's class: where its code comes from, what is stored, and what is refused."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.code.artifacts import ArtifactStore
from headrace.code.hosts import current_hosts
from headrace.errors import Error, ExistsError, IntegrityError, InvalidCodeError, NotFoundError
from headrace.model.failpoints import FailpointError, armed
from headrace.model.functions import FunctionKind, RegisteredFunction
from headrace.settings import load

CODE = """
from headrace.udf import UDAF, UDTF, MappableRowByRowAccessStrategy, Type

class Double(UDTF):
    def before_start(self, parameters, configurations):
        configurations.set_output_data_type(Type.DOUBLE).set_access_strategy(MappableRowByRowAccessStrategy())
    def transform(self, row, collector):
        return row.get_double(0) * 2

class FastDouble(Double):
    def transform_batch(self, batch):
        import pyarrow.compute as pc
        return pc.multiply(batch["x0"], 2.0)

class Total(UDAF):
    before_start = create_state = add_input = output_final = lambda self, *arguments: None

class Other:
    pass

class Complete(UDTF):
    before_start = transform = lambda self, *arguments: None

class Broken(Complete):
    def __init__(self):
        raise RuntimeError("no license")

class Exit(Complete):
    def __init__(self):
        import os
        os._exit(3)
"""
LOAD_FAILURE = r"1200: Failed to load class '{}', because it's not found in jar file or is invalid: "


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[headrace.Connection]:
    """Provide a connection to a home with a module of functions in its plugin folder."""
    home = tmp_path / "home"
    (home / "ext" / "udf").mkdir(parents=True)
    (home / "ext" / "udf" / "functions.py").write_text(CODE)
    with headrace.connect(home, dialect="iotdb", user="vera", clock=headrace.ManualClock(1000)) as opened:
        yield opened
    current_hosts().close()


def plugin_folder(connection: headrace.Connection) -> Path:
    return connection.session.context.settings.home_path / "ext" / "udf"


def registered(connection: headrace.Connection) -> list[RegisteredFunction]:
    return list(connection.session.context.catalog.functions.all("iotdb"))


def external(connection: headrace.Connection) -> list[tuple[str, str, str]]:
    """Return what SHOW FUNCTIONS lists of registered functions."""
    return [row for row in connection.execute("show functions").fetchall() if row[1].startswith("external")]


def test_a_class_of_the_plugin_folder_is_registered(connection: headrace.Connection) -> None:
    for name in ("Double", "FastDouble", "Total"):
        connection.execute(f"create function {name} as 'functions.{name}'")
    assert external(connection) == [
        ("DOUBLE", "external UDTF", "functions.Double"),
        ("FASTDOUBLE", "external UDTF", "functions.FastDouble"),
        ("TOTAL", "external UDAF", "functions.Total"),
    ]
    double, fast, total = registered(connection)
    assert (double.kind, double.vectorized, fast.vectorized, total.kind) == (FunctionKind.UDTF, False, True, FunctionKind.UDAF)
    assert (double.owner, double.module) == ("vera", "functions")
    assert double.artifact == total.artifact
    assert double.artifact is not None
    assert double.artifact.name == "functions.py"


def test_what_was_registered_stays_when_the_file_changes(connection: headrace.Connection) -> None:
    connection.execute("create function f as 'functions.Double'")
    shutil.rmtree(plugin_folder(connection))
    (function,) = registered(connection)
    assert function.artifact is not None
    settings = connection.session.context.settings
    assert ArtifactStore.of(settings).local_path(function.artifact).read_text() == CODE


def test_code_comes_from_a_uri_whatever_the_file_is_called(connection: headrace.Connection) -> None:
    folder = plugin_folder(connection)
    (folder / "functions.py").rename(folder / "version 2.py")
    with zipfile.ZipFile(folder / "code.zip", "w") as archive:
        archive.writestr("tools/__init__.py", "")
        archive.writestr("tools/functions.py", CODE)
    connection.execute(f"create function f as 'functions.Double' using uri 'file:{folder}/version%202.py'")
    connection.execute(f"create function g as 'tools.functions.Total' using uri 'file://{folder}/code.zip'")
    assert [name for name, _, _ in external(connection)] == ["F", "G"]


def test_code_comes_from_an_installed_package(
    connection: headrace.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "lib" / "installed_functions"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "scale.py").write_text("FACTOR = 2")
    (package / "functions.py").write_text(f"from installed_functions.scale import FACTOR\n{CODE}")
    monkeypatch.syspath_prepend(tmp_path / "lib")
    connection.execute("create function f as 'installed_functions.functions.Double'")
    (function,) = registered(connection)
    assert function.artifact is not None
    assert function.artifact.name == "installed_functions.zip"


@pytest.mark.parametrize(
    ("class_name", "hint"),
    [
        ("no.such.Clazz", "write 'module.Class', and put the module into"),
        ("functions.Missing", "module functions has no class Missing"),
        ("functions.Other", "is not a subclass of UDTF, UDAF, Trigger, PipeSource, PipeProcessor or PipeSink"),
        ("functions.Broken", "RuntimeError: no license"),
        ("functions.Exit", "its code host ended with status 3"),
    ],
)
def test_a_class_that_cannot_be_loaded_is_not_registered(connection: headrace.Connection, class_name: str, hint: str) -> None:
    with pytest.raises(InvalidCodeError, match=LOAD_FAILURE.format(class_name)) as refused:
        connection.execute(f"create function f as '{class_name}'")
    assert (refused.value.status, hint in refused.value.hint) == (1200, True)
    assert refused.value.span is not None
    assert registered(connection) == []


@pytest.mark.parametrize(
    ("uri", "message", "status"),
    [
        ("", "1201: URI is empty, please specify the URI.", 1201),
        ("x.py", "1201: The scheme of URI is not set, please specify the scheme of URI.", 1201),
        ("file:///etc/passwd", "1304: Failed to get executable for UDF 'F', please check the URI.", 1304),
        ("file:missing.py", "1304: Failed to get executable for UDF 'F', please check the URI.", 1304),
        ("file:functions.jar", "1304: Failed to get executable for UDF 'F', please check the URI.", 1304),
        ("https://example.com/f.py", "1304: Failed to get executable for UDF 'F', please check the URI.", 1304),
    ],
)
def test_a_uri_from_which_code_cannot_be_read_is_refused(
    connection: headrace.Connection, uri: str, message: str, status: int
) -> None:
    with pytest.raises(Error) as refused:
        connection.execute(f"create function f as 'functions.Double' using uri '{uri}'")
    assert (refused.value.message, refused.value.status) == (message, status)
    assert refused.value.hint
    assert registered(connection) == []


def test_code_that_is_too_large_is_refused(tmp_path: Path) -> None:
    settings = load(home=tmp_path / "home", code_max_bytes=100)
    (tmp_path / "home" / "ext" / "udf").mkdir(parents=True)
    (tmp_path / "home" / "ext" / "udf" / "functions.py").write_text(CODE)
    with headrace.connect(settings=settings, dialect="iotdb") as connection:
        with pytest.raises(InvalidCodeError, match="1200: ") as refused:
            connection.execute("create function f as 'functions.Double'")
        assert "has more than 100 bytes" in refused.value.hint
        with pytest.raises(Error, match="1304: "):
            connection.execute("create function f as 'functions.Double' using uri 'file:functions.py'")
        assert registered(connection) == []


def test_explain_says_where_code_is_and_does_not_run_it(connection: headrace.Connection) -> None:
    lines = [line for (line,) in connection.execute("explain create function f as 'functions.Exit'").fetchall()]
    path = plugin_folder(connection) / "functions.py"
    assert lines == [
        f"create function F: functions.Exit in {path}, loaded once in a code host",
        "needs the right to create function F",
    ]


def test_classes_of_the_library_have_two_names_and_no_code(connection: headrace.Connection) -> None:
    names = {"a": "org.apache.iotdb.library.anomaly.UDTFRange", "b": "headrace.library.anomaly.OutOfRange"}
    for name, class_name in names.items():
        connection.execute(f"create function {name} as '{class_name}' using uri 'file:///opt/library-udf.jar'")
    assert external(connection) == [(name.upper(), "external UDTF", class_name) for name, class_name in names.items()]
    assert [(function.artifact, function.owner) for function in registered(connection)] == [(None, "vera")] * 2
    connection.execute("create timeseries root.t.d.s DOUBLE")
    connection.execute("insert into root.t.d(time, s) values (1, 1), (2, 5), (3, 9)")
    limits = "'lower_bound'='2', 'upper_bound'='8'"
    rows = connection.execute(f"select a(s, {limits}), b(s, {limits}) from root.t.d").fetchall()
    assert [row[1:] for row in rows] == [(1, 1), (9, 9)]
    for class_name in ("headrace.library.anomaly.Missing", "headrace.library.sliding.X", "org.apache.iotdb.library.other.UDTFX"):
        with pytest.raises(InvalidCodeError, match=LOAD_FAILURE.format(class_name)):
            connection.execute(f"create function c as '{class_name}'")


def test_a_registered_class_runs_as_it_was_registered(connection: headrace.Connection) -> None:
    connection.execute("create function twice as 'functions.Double'")
    (plugin_folder(connection) / "functions.py").write_text("raise SystemExit")
    connection.execute("create timeseries root.t.d.s DOUBLE")
    connection.execute("insert into root.t.d(time, s) values (1, 1), (2, 5)")
    assert [value for _, value in connection.execute("select Twice(s) from root.t.d").fetchall()] == [2, 10]


def test_names_ignore_case_and_are_unique(connection: headrace.Connection) -> None:
    connection.execute("create function Twice as 'functions.Double'")
    for name in ("twice", "TWICE", "abs"):
        with pytest.raises(ExistsError, match=f"301: Failed to create UDF \\[{name.upper()}], the same name UDF has been created"):
            connection.execute(f"create function {name} as 'functions.Double'")
    connection.execute("drop function tWICE")
    with pytest.raises(NotFoundError, match=r"301: Failed to drop UDF \[TWICE], this UDF has not been created"):
        connection.execute("drop function twice")


def test_functions_are_listed_as_iotdb_lists_them(connection: headrace.Connection) -> None:
    connection.execute("create function middle as 'functions.Double'")
    cursor = connection.execute("show functions")
    assert [column[0] for column in cursor.description or ()] == ["FunctionName", "FunctionType", "ClassName(UDF)"]
    kinds = {"external UDTF": 0, "built-in UDTF": 0, "native": 1, "built-in scalar": 2}
    rows = cursor.fetchall()
    assert rows == sorted(rows, key=lambda row: (kinds[row[1]], row[0]))
    assert {row[1] for row in rows} == set(kinds)


@pytest.mark.parametrize("name", ["parts", pytest.param("match", id="a function with the name of an operator")])
def test_a_function_that_a_continuous_query_calls_cannot_be_dropped(connection: headrace.Connection, name: str) -> None:
    text = "org.apache.iotdb.library.string.UDTFRegexSplit"
    connection.execute(f"create function {name} as '{text}'")
    connection.execute("create timeseries root.t.d.s TEXT")
    query = f"select last_value({name.title()}(s, 'regex'=',')) into root.t.x(a) from root.t.d"
    connection.execute(f"create cq c resample every 1h begin {query} end")
    with pytest.raises(IntegrityError, match=f"function {name.upper()} cannot be dropped: continuous query c calls it"):
        connection.execute(f"drop function {name}")
    connection.execute("drop cq c")
    connection.execute(f"drop function {name}")
    assert external(connection) == []


def test_the_code_of_a_dropped_function_is_removed_a_day_later(connection: headrace.Connection) -> None:
    store = ArtifactStore.of(connection.session.context.settings)
    connection.execute("create function f as 'functions.Double'")
    connection.execute("drop function f")
    (kept,) = Path(store.uri).iterdir()
    assert (kept / "functions.py").read_text() == CODE
    assert store.collect((), grace_s=-60) == [kept.name]


@pytest.mark.parametrize("point", ["code.stored", "code.described"])
def test_a_failure_before_the_end_leaves_nothing(connection: headrace.Connection, point: str) -> None:
    with armed(f"{point}:1:raise"), pytest.raises(Error) as failed:
        connection.execute("create function f as 'functions.Double'")
    assert isinstance(failed.value.__cause__, FailpointError)
    assert registered(connection) == []
    connection.execute("create function f as 'functions.Double'")
    assert [name for name, _, _ in external(connection)] == ["F"]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("local_rows", [10, 0])
def test_rows_stay_if_a_function_has_a_value_for_each(connection: headrace.Connection, local_rows: int) -> None:
    connection.execute("create function twice as 'functions.Double'")
    connection.execute("insert into root.d.x(time, a, b) values (1, 1, 5), (2, 2, null)")
    settings = load(home=connection.session.context.settings.home, local_rows=local_rows)
    with headrace.connect(settings=settings, dialect="iotdb", user="vera", clock=headrace.ManualClock(1000)) as opened:
        rows = opened.execute("select twice(a) + b from root.d.x").fetchall()
    assert [value for _, value in rows] == [7, None]
