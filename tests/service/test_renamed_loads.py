"""Loads of files whose columns have other names than those of the table."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import headrace
from headrace.cli.app import app
from headrace.errors import NotFoundError, ProgrammingError

LINES = "time,pump,hall,bar,note\n2024-05-01 00:00:00,p1,A,2.5,x\n2024-05-01 00:00:00,p2,B,3.5,y\n"


@pytest.fixture
def file(tmp_path: Path, connection: headrace.Connection) -> Path:
    connection.execute("create stable pumps (ts timestamp, bar double) tags (pump varchar(9), hall varchar(9))")
    path = tmp_path / "pumps.csv"
    path.write_text(LINES)
    return path


@pytest.mark.parametrize("options", ["time=ts,pump=tbname,pump=pump,note=", "time=ts, note= --map pump=tbname,pump=pump"])
def test_columns_are_mapped_as_the_command_says(connection: headrace.Connection, file: Path, options: str) -> None:
    home = str(connection.session.context.settings.home_path)
    maps = [argument for option in options.split(" --map ") for argument in ("--map", option)]
    result = CliRunner().invoke(app, ["load", str(file), "--into", "d.pumps", "--home", home, *maps])
    assert (result.exit_code, result.output.strip()) == (0, "2 rows in d.pumps")
    rows = connection.execute("select tbname, pump, hall, bar from pumps order by 1").fetchall()
    assert rows == [("p1", "p1", "A", 2.5), ("p2", "p2", "B", 3.5)]


def test_what_is_not_mapped_is_told_with_the_way_out(connection: headrace.Connection, file: Path) -> None:
    with pytest.raises(NotFoundError, match="no column 'time'") as unknown:
        connection.load(file, "pumps")
    assert "--map 'time=COLUMN' says" in (unknown.value.hint or "")
    columns = {"time": ["ts"], "pump": ["tbname"], "note": [], "pressure": ["bar"]}
    with pytest.raises(ProgrammingError, match="no file has a column pressure"):
        connection.load(file, "pumps", columns=columns)
    with pytest.raises(ProgrammingError, match="are one column"):
        connection.load(file, "pumps", columns={"time": ["ts"], "pump": ["tbname"], "note": ["bar"]})
    assert connection.execute("select count(*) from pumps").fetchall() == [(0,)]


def test_a_pair_without_a_name_and_a_tree_are_refused(connection: headrace.Connection, file: Path) -> None:
    home = str(connection.session.context.settings.home_path)
    result = CliRunner().invoke(app, ["load", str(file), "--into", "d.pumps", "--home", home, "--map", "time"])
    assert result.exit_code == 2
    assert "'time' is no pair" in result.output
    with pytest.raises(ProgrammingError, match="--map is for tables"):
        connection.load(file, "root.plant", device="root.plant.line1", columns={"time": ["ts"]})
