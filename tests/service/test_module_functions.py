"""CREATE FUNCTION of TDengine: functions that a module of Python defines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.code.hosts import current_hosts
from headrace.errors import Error, ExistsError, InvalidCodeError, LimitError, NotFoundError, ProgrammingError, UserCodeError
from headrace.model.functions import FunctionKind
from headrace.service.endpoint import sql_runner
from tests.service.conftest import START
from tests.support.forking import die_at, execute

SCALAR = """
def init(): pass
def destroy(): pass
def process(block):
    return [block.data(row, 0) + 1 for row in range(block.shape()[0])]
"""
AGGREGATE = """
import pickle
from pickle import dumps as start
if True:
    def init(): pass
destroy = init
def reduce(block, buf): return buf
def finish(buf): return None
"""


@pytest.fixture(autouse=True)
def no_hosts_remain() -> Iterator[None]:
    """End the hosts of a test."""
    yield
    current_hosts().close()


@pytest.fixture
def folder(connection: headrace.Connection) -> Path:
    """Return the plugin folder, with a scalar function and an aggregate."""
    path = connection.session.context.settings.home_path / "ext" / "udf"
    path.mkdir(parents=True)
    (path / "add_one.py").write_text(SCALAR)
    (path / "total.py").write_text(AGGREGATE)
    return path


def create(path: object, options: str = "outputtype int language 'Python'", *, head: str = "function f") -> str:
    return f"create {head} as '{path}' {options}"


def names(connection: headrace.Connection) -> list[str]:
    return [name for (name,) in connection.execute("show functions").fetchall()]


def test_functions_are_registered_and_listed(connection: headrace.Connection, folder: Path) -> None:
    connection.execute(create(folder / "add_one.py", head="function AddOne"))
    connection.execute(create("total.py", "outputtype varchar(20) bufsize 128 language 'python'", head="aggregate function total"))
    cursor = connection.execute("select * from information_schema.ins_functions order by name")
    columns = "name comment aggregate output_type create_time code_len bufsize func_language func_body func_version"
    assert [column[0] for column in cursor.description or ()] == columns.split()
    rows = [row[:4] + row[5:] for row in cursor.fetchall()]
    assert rows == [
        ("addone", "", 0, "INT", len(SCALAR), 0, "Python", SCALAR, 0),
        ("total", "", 1, "VARCHAR(20)", len(AGGREGATE), 128, "Python", AGGREGATE, 0),
    ]
    assert names(connection) == ["addone", "total"]
    assert connection.execute("show functions like 'to%'").fetchall() == [("total",)]
    add_one, total = connection.session.context.catalog.functions.all("tdengine")
    assert (add_one.kind, add_one.module, total.kind) == (FunctionKind.SCALAR, "add_one", FunctionKind.UDAF)
    assert add_one.owner == connection.user


def test_each_dialect_lists_its_own_functions(connection: headrace.Connection, folder: Path) -> None:
    connection.execute(create(folder / "add_one.py"))
    with headrace.connect(connection.session.context.settings.home, dialect="iotdb") as tree:
        tree.execute("create function g as 'org.apache.iotdb.library.string.UDTFRegexSplit'")
        external = [row for row in tree.execute("show functions").fetchall() if row[1].startswith("external")]
    assert [name for name, _, _ in external] == ["G"]
    assert names(connection) == ["f"]


def test_a_function_is_replaced_by_its_next_version(connection: headrace.Connection, folder: Path) -> None:
    connection.execute(create(folder / "add_one.py"))
    with pytest.raises(ExistsError, match="function f exists already"):
        connection.execute(create(folder / "total.py", head="aggregate function f"))
    connection.execute(create(folder / "missing.py", head="function if not exists f"))
    connection.execute(create(folder / "total.py", head="or replace aggregate function f"))
    query = "select name, aggregate, func_version from information_schema.ins_functions"
    assert connection.execute(query).fetchall() == [("f", 1, 1)]


def test_a_function_is_dropped_once(connection: headrace.Connection, folder: Path) -> None:
    connection.execute(create(folder / "add_one.py"))
    connection.execute("drop function F")
    assert names(connection) == []
    with pytest.raises(NotFoundError, match="function f does not exist"):
        connection.execute("drop function f")
    connection.execute("drop function if exists f")


def test_names_of_built_in_functions_and_long_names_are_refused(connection: headrace.Connection, folder: Path) -> None:
    with pytest.raises(ExistsError, match="function abs exists already"):
        connection.execute(create(folder / "add_one.py", head="function abs"))
    with pytest.raises(LimitError, match="has at most 64 characters"):
        connection.execute(create(folder / "add_one.py", head=f"function {'f' * 65}"))
    connection.execute(create(folder / "add_one.py", head=f"function {'f' * 64}"))
    assert names(connection) == ["f" * 64]


MODULES: dict[str, tuple[type[Error], str, str]] = {
    "x = 1": (InvalidCodeError, "module add_one does not define init, destroy, process", "a module of this kind of function"),
    f"{SCALAR}process = 1": (InvalidCodeError, "module add_one does not define process", "defines init, destroy, process"),
    AGGREGATE: (InvalidCodeError, "module add_one does not define process", "write CREATE AGGREGATE FUNCTION"),
    "def init(:": (UserCodeError, "SyntaxError", "correct the function"),
    "import missing": (UserCodeError, "ModuleNotFoundError: No module named 'missing'", "correct the function"),
    "import os\nos._exit(5)": (UserCodeError, "its code host ended with status 5", "correct the function"),
}


@pytest.mark.parametrize("code", MODULES)
def test_a_module_that_is_no_function_is_refused(connection: headrace.Connection, folder: Path, code: str) -> None:
    (folder / "add_one.py").write_text(code)
    kind, message, hint = MODULES[code]
    with pytest.raises(kind) as refused:
        connection.execute(create(folder / "add_one.py"))
    assert message in refused.value.message
    assert hint in refused.value.hint
    assert refused.value.span is not None
    assert names(connection) == []


def test_a_scalar_function_is_no_aggregate(connection: headrace.Connection, folder: Path) -> None:
    with pytest.raises(InvalidCodeError, match="does not define start, reduce, finish") as refused:
        connection.execute(create(folder / "add_one.py", head="aggregate function f"))
    assert refused.value.hint == "leave AGGREGATE out"


def test_only_modules_of_allowed_folders_are_read(connection: headrace.Connection, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "add_one.py").write_text(SCALAR)
    (folder / "code.zip").write_bytes(b"")
    refused: dict[str, tuple[type[Error], str]] = {
        str(tmp_path / "add_one.py"): (ProgrammingError, "code must not be read from"),
        "missing.py": (NotFoundError, "does not exist"),
        "code.zip": (InvalidCodeError, "is not a module of Python"),
    }
    for path, (kind, message) in refused.items():
        with pytest.raises(kind, match=message) as error:
            connection.execute(create(path))
        assert error.value.span is not None


def test_clients_of_another_machine_name_files_of_the_plugin_folder(connection: headrace.Connection, folder: Path) -> None:
    run = sql_runner(connection.session.context)
    run(create(folder / "add_one.py"), "tdengine", None)
    (function,) = connection.session.context.catalog.functions.all("tdengine")
    assert (function.owner, function.created) == ("http", START)


@pytest.mark.parametrize("point", ["code.stored", "code.described", "functions.recorded", "functions.dropped"])
def test_a_process_that_dies_leaves_all_or_nothing(connection: headrace.Connection, folder: Path, point: str) -> None:
    home = connection.session.context.settings.home_path
    statements = [
        create(folder / "add_one.py"),
        create(folder / "total.py", head="or replace aggregate function f"),
        "drop function f",
    ]
    die_at(point, execute, home, *statements)
    left = {"code.stored": [], "code.described": [], "functions.recorded": ["f"], "functions.dropped": []}
    assert names(connection) == left[point]
    connection.execute("drop function if exists f")
    execute(home, *statements)
    assert names(connection) == []
