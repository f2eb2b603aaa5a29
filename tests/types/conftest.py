"""A home with all of its doors open, in which each way in has written every value of every type."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

import headrace
from headrace.doors import DOORS, with_group_commit
from headrace.doors.gate import Gate
from headrace.service.authentication import authenticator
from headrace.settings import load
from tests.support.iotdb_client import iotdb_client  # noqa: F401  (fixture)
from tests.types.house import PASSWORD, House
from tests.types.values import TDENGINE, TREE
from tests.types.ways import TABLE, WAYS
from tests.types.ways_iotdb import TREE_WAYS, write_tree

NAMES = ("flight", "iotdb", "tdengine")


@pytest.fixture(scope="package")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Open the doors of an empty home."""
    home = tmp_path_factory.mktemp("types")
    settings = load(home=home / "home", doors=",".join(NAMES), http_token=PASSWORD, **{f"{name}_port": 0 for name in NAMES})
    with ExitStack() as stack:
        connection = stack.enter_context(headrace.connect(settings=settings, dialect="tdengine"))
        tree = stack.enter_context(headrace.connect(settings=settings, dialect="iotdb"))
        context = with_group_commit(connection.session.context)
        gate = Gate(context, authenticator(context))
        addresses = {}
        for door in [door for create in DOORS if (door := create(gate)) is not None]:
            door.start()
            stack.callback(door.stop)
            addresses[door.name] = door.address
        client = httpx.Client(base_url=f"http://{addresses['tdengine']}", auth=("root", PASSWORD), trust_env=False, timeout=600)
        yield House(connection, tree, stack.enter_context(client), addresses, home)


@pytest.fixture(scope="package")
def table(house: House) -> House:
    """Write every value of every type by every way into one supertable: a way has a subtable."""
    columns = ", ".join(f"{type_.name} {type_.sql}" for type_ in TDENGINE)
    for sql in ("create database d", "use d", f"create stable {TABLE} (_ts timestamp, {columns}) tags (way nchar(20))"):
        house.connection.execute(sql)
    for way in WAYS:
        house.connection.execute(f"create table {way.name} using {TABLE} tags ('{way.name}')")
        way.write(house, way)
    return house


@pytest.fixture(scope="package")
def devices(house: House, iotdb_client: None) -> House:  # noqa: ARG001, F811  (the package that is imported)
    """Write every value of every type by every way into a database of the tree: a way has a device."""
    house.tree.execute("create database root.m")
    for way in TREE_WAYS:
        for type_ in TREE:
            house.tree.execute(f"create timeseries root.m.{way.name}.{type_.name} {type_.sql}")
        write_tree(house, way)
    return house
