"""Who creates external tables, and where: by a grant, below the locations of the settings alone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import headrace
from headrace.errors import EgressDeniedError, PermissionDeniedError, ProgrammingError
from headrace.settings import load

CREATE = "create external stable lake (ts from t, v) tags (m) using delta at '{}'"


def write_table(folder: Path) -> str:
    rows = {"t": pa.array([dt.datetime(2024, 5, 1, tzinfo=dt.UTC)], pa.timestamp("us", "UTC")), "v": [1], "m": ["a"]}
    write_deltalake(str(folder), pa.table(rows))
    return str(folder)


@contextmanager
def connected(tmp_path: Path, **settings: Any) -> Iterator[tuple[headrace.Connection, headrace.Connection]]:
    """Connect root, and a user who may write to the database `d`, but not yet create external tables."""
    loaded = load(home=tmp_path / "home", **settings)
    with headrace.connect(settings=loaded) as root:
        for sql in ("create database d", "create user vera pass 'secret12'", "grant write on d.* to vera"):
            root.execute(sql)
        with headrace.connect(settings=loaded, user="vera", password="secret12", database="d") as vera:
            yield root, vera


def test_who_was_granted_it_creates_reads_and_drops_external_tables(tmp_path: Path) -> None:
    location = write_table(tmp_path / "lake" / "t")
    with connected(tmp_path, external_locations=str(tmp_path / "lake")) as (root, vera):
        with pytest.raises(PermissionDeniedError, match="please add privilege USE_EXTERNAL"):
            vera.execute(CREATE.format(location))
        root.execute("grant use_external on *.* to vera")
        vera.execute(CREATE.format(location))
        with pytest.raises(PermissionDeniedError):
            vera.execute("select v from lake")
        root.execute("grant read on d.lake to vera")
        assert vera.execute("select v from lake").fetchall() == [(1,)]
        assert ("use_external", "root.**") in {(row[1], row[3]) for row in vera.execute("show user privileges").fetchall()}
        vera.execute("drop stable lake")
        root.execute("revoke use_external on *.* from vera")
        with pytest.raises(PermissionDeniedError):
            vera.execute(CREATE.format(location))


def test_it_needs_the_right_to_create_tables_in_the_database(tmp_path: Path) -> None:
    location = write_table(tmp_path / "lake" / "t")
    with connected(tmp_path, external_locations=str(tmp_path / "lake")) as (root, vera):
        root.execute("create database other")
        with headrace.connect(tmp_path / "home", dialect="iotdb") as tree:
            tree.execute("grant USE_EXTERNAL on root.** to user vera")
        for database in ("other", "nowhere"):
            with pytest.raises(PermissionDeniedError, match="Permission denied or target object not exist"):
                vera.execute(CREATE.format(location).replace("stable lake", f"stable {database}.lake"))


@pytest.mark.parametrize(
    "place",
    [
        *("{}/lake2/t", "{}/lake/../lake2/t", "file://{}/lake/%2e%2e/lake2/t", "{}/lake/link/t", "{}/nowhere", "{}"),
        *("s3://b/lake2/t", "s3://b2/lake/t", "s3a://b/lakes", "s3://b"),
    ],
)
def test_it_holds_below_the_locations_of_the_settings_alone(tmp_path: Path, place: str) -> None:
    write_table(tmp_path / "lake2" / "t")
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "link").symlink_to(tmp_path / "lake2")
    with connected(tmp_path, external_locations=f"{tmp_path}/lake, s3://b/lake") as connections:
        connections[0].execute("grant use_external on *.* to vera")
        for connection in connections:
            with pytest.raises(EgressDeniedError, match="HEADRACE_EXTERNAL_LOCATIONS does not allow files and folders"):
                connection.execute(CREATE.format(place.format(tmp_path)).replace("stable lake", "stable d.lake"))


def test_what_is_not_there_is_said_within_the_locations(tmp_path: Path) -> None:
    with connected(tmp_path, external_locations=str(tmp_path / "lake")) as (root, vera):
        root.execute("grant use_external on *.* to vera")
        with pytest.raises(ProgrammingError, match="there is no Delta table at"):
            vera.execute(CREATE.format(tmp_path / "lake" / "nothing"))


def test_without_locations_root_names_any_place_until_there_is_another_user(tmp_path: Path) -> None:
    location = write_table(tmp_path / "lake")
    with headrace.connect(tmp_path / "home", database=None) as root:
        root.execute("create database d")
        root.execute(CREATE.format(location).replace("stable lake", "stable d.first"))
    with connected_again(tmp_path) as connections:
        for connection in connections:
            with pytest.raises(EgressDeniedError):
                connection.execute(CREATE.format(location).replace("stable lake", "stable d.second"))


@contextmanager
def connected_again(tmp_path: Path) -> Iterator[tuple[headrace.Connection, headrace.Connection]]:
    """Connect root, and a new user who has the right."""
    with headrace.connect(tmp_path / "home") as root:
        for sql in ("create user vera pass 'secret12'", "grant write on d.* to vera", "grant use_external on *.* to vera"):
            root.execute(sql)
        with headrace.connect(tmp_path / "home", user="vera", password="secret12", database="d") as vera:
            yield root, vera
