"""A statement for each stage, the rights that it needs, and a home with what the statements name."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa
from deltalake import write_deltalake

import headrace
from headrace.model.loads import LoadRequest
from headrace.service import topics
from headrace.service.session import Session
from headrace.service.stage import Stage
from headrace.service.topics import backfills, loads, verifications

LAKE: Final = TemporaryDirectory(prefix="headrace-lake-")
"""A Delta table of another writer; it goes with the process."""
write_deltalake(LAKE.name, pa.table({"t": pa.array([0], pa.timestamp("us", "UTC")), "v": [1], "m": ["a"]}))
STREAM = "create stream other fill_history 1 into out2 as select _wstart, count(*) from readings interval(1m)"
STATEMENTS = {
    "create database e": "create database e",
    "alter database d keep 3": "alter database d",
    "compact database d": "alter database d",
    "drop database d": "drop database d",
    "drop database gone": "drop database gone",
    "use d": "describe database d",
    "create table t (ts timestamp, a int)": "create table d.t",
    f"create external stable lake (ts from t, v) tags (m) using delta at '{LAKE.name}'": "USE_EXTERNAL",
    "drop stable readings": "drop table d.readings",
    "drop table dev1": "drop table d.dev1",
    "create table dev3 using readings tags ('east', 3)": "write table d.readings",
    "alter table dev1 set tag floor = 4": "write table d.readings",
    "alter stable readings add column c int": "alter table d.readings",
    "alter stable readings drop column b": "alter table d.readings",
    "alter stable readings modify tag place varchar(64)": "alter table d.readings",
    "alter stable readings rename tag place spot": "alter table d.readings",
    "alter table unread rename column a b": "alter table d.unread",
    "alter stable readings comment 'x'": "alter table d.readings",
    "insert into dev1 values (now, 1, 1.5)": "write table d.readings",
    "insert into plain select ts, a from dev1": "write table d.plain, read table d.readings",
    "alter table dev1 ttl 5": "alter table d.dev1",
    "delete from dev1 where ts < now": "write table d.readings",
    "select a from dev1 union all select a from plain": "read table d.readings, read table d.plain",
    "select 1": "describe catalog",
    "show databases": "describe catalog",
    "show tables": "describe database d",
    "show streams": "describe catalog",
    "show create database d": "describe database d",
    "show create stable readings": "describe table d.readings",
    "show create stream s": "describe stream d.s",
    "describe dev1": "describe table d.dev1",
    "create vtable w (ts timestamp, a int from dev1.a)": "create table d.w, read table d.dev1",
    "create vtable v2 (a from dev1.a) using virtual tags (1)": "write table d.virtual, read table d.dev1",
    "alter vtable v add column b int from plain.a": "alter table d.v, read table d.plain",
    "alter vtable v1 alter column a set plain.a": "alter table d.v1, read table d.plain",
    "drop vtable v1": "drop table d.v1",
    "select * from information_schema.ins_tables": "describe catalog",
    "explain analyze select a from readings": "read table d.readings",
    "explain drop stable readings": "describe table d.readings",
    STREAM: "create stream d.other, read table d.readings, create table d.out2, write table d.out2, describe stream d.other",
    "create or replace stream s trigger at_once into out1 as select _wstart, max(a) n from readings interval(10s)": (
        "drop stream d.s, create stream d.s, read table d.readings, write table d.out1, describe stream d.s"
    ),
    "alter stream s watermark 1s": "alter stream d.s, read table d.readings, write table d.out1, describe stream d.s",
    "reset stream s": "operate stream d.s, read table d.readings, write table d.out1, describe stream d.s",
    "create snode on dnode 3": "alter catalog",
    "drop snode on dnode 2": "alter catalog",
    "show queries": "describe catalog",
    "kill query '1:1'": "operate catalog",
    "show connections": "describe catalog",
    "kill connection 1": "operate catalog",
    "select server_version()": "describe catalog",
    "drop stream s": "drop stream d.s, describe stream d.s",
    "pause stream s": "operate stream d.s",
    "resume stream s": "operate stream d.s, describe stream d.s",
    "replay quarantine of stream s": "operate stream d.s",
    "create function one as 'one.py' outputtype int language 'Python'": "USE_UDF",
    "create or replace function two as 'one.py' outputtype int language 'Python'": "USE_UDF",
    "drop function two": "USE_UDF",
}
ONE = "def init(): pass\ndef destroy(): pass\ndef process(block): return [1] * block.shape()[0]\n"
SPLIT = "org.apache.iotdb.library.string.UDTFRegexSplit"
DISCARD = "with source ('source'='do-nothing-source') with sink ('sink'='do-nothing-sink')"
PEOPLE = (
    *("create user vera 'secret12'", "create user otto 'secret12'", "create role crew", "grant role crew to otto"),
    "grant READ_DATA on root.plant.** to user otto",
)
TREE_STATEMENTS = {
    "create database root.other": "MANAGE_DATABASE",
    f"create external database root.lake (time from t, v) tags (m) using delta at '{LAKE.name}'": "USE_EXTERNAL, MANAGE_DATABASE",
    "delete database root.plant": "MANAGE_DATABASE",
    "create timeseries root.plant.line1.s2 with datatype=DOUBLE": "WRITE_SCHEMA on root.plant.line1.s2",
    "delete timeseries root.plant.line1.s1": "WRITE_SCHEMA on root.plant.line1.s1",
    "alter timeseries root.plant.line1.s1 add tags unit=rpm": "WRITE_SCHEMA on root.plant.line1.s1",
    "insert into root.plant.line1(time, s1) values (1, 2)": "WRITE_DATA on root.plant.line1.s1",
    "explain insert into root.plant.line1(time, s1) values (1, 2)": "WRITE_DATA on root.plant.line1.s1",
    "delete from root.plant.line1.s1 where time < 5": "WRITE_DATA on root.plant.line1.s1",
    "set ttl to root.plant.** 3600000": "WRITE_SCHEMA on root.plant.**",
    "select s1 from root.plant.line1": "READ_DATA on root.plant.line1.s1",
    "select last s1 from root.plant.line1": "READ_DATA on root.plant.line1.s1",
    "select s1 into root.plant.copy(s1) from root.plant.line1": (
        "READ_DATA on root.plant.line1.s1, WRITE_DATA on root.plant.copy.s1"
    ),
    "select s9 into root.plant.copy(s1) from root.plant.line1": "READ_DATA on root.plant.line1.s9",
    "select count(s1) from root.plant.** group by tags(unit)": "READ_DATA on root.plant.**.s1",
    "show devices": "describe catalog",
    "create cq q begin select count(s1) into root.plant.n(c) from root.plant.line1 group by (1m) end": "USE_CQ",
    "show cq executions": "USE_CQ",
    "drop cq tens": "USE_CQ",
    "pause cq tens": "USE_CQ",
    "resume cq tens": "USE_CQ",
    "show devices where time > 1": "READ_DATA on root.**",
    f"create function parts as '{SPLIT}'": "USE_UDF",
    "create function f as 'first.First'": "USE_UDF",
    "drop function part": "USE_UDF",
    "create pipeplugin p as 'first.First'": "USE_PIPE",
    "create pipeplugin if not exists `do-nothing-sink` as 'first.First'": "USE_PIPE",
    "drop pipeplugin if exists p": "USE_PIPE",
    "show pipeplugins": "USE_PIPE",
    f"create pipe p {DISCARD}": "USE_PIPE",
    "alter pipe copies modify sink ('k'='v')": "USE_PIPE",
    "stop pipe copies": "USE_PIPE",
    "start pipe copies": "USE_PIPE",
    "drop pipe copies": "USE_PIPE",
    "show pipes": "USE_PIPE",
    "show queries": "MAINTAIN",
    "kill query '1:1'": "operate catalog",
    "create device template t2 (s1 INT32)": "administer catalog",
    "drop device template t0": "administer catalog",
    "alter device template t1 add (s2 INT32)": "EXTEND_TEMPLATE",
    "set device template t0 to root.plant.new": "administer catalog",
    "show device templates": "administer catalog",
    "create timeseries using device template on root.plant.pumps.p2": "WRITE_SCHEMA on root.plant.pumps.p2",
    "deactivate device template t1 from root.plant.pumps.*": "WRITE_SCHEMA on root.plant.pumps.*",
    "insert into root.plant.pumps.p2(time, x) values (1, 2)": "WRITE_DATA on root.plant.pumps.p2.x",
    "create user anna 'secret12'": "MANAGE_USER",
    "alter user otto set password 'secret34'": "MANAGE_USER",
    "alter user vera set password 'secret34'": "describe catalog",
    "drop user otto": "MANAGE_USER",
    "create role team": "MANAGE_ROLE",
    "drop role crew": "MANAGE_ROLE",
    "grant role crew to vera": "MANAGE_ROLE",
    "revoke role crew from otto": "MANAGE_ROLE",
    "grant READ, USE_CQ on root.** to user otto": "READ_DATA on root.**, READ_SCHEMA on root.**, USE_CQ",
    "revoke READ_DATA on root.plant.** from user otto": "READ_DATA on root.plant.**",
    "grant USE_SECRET on 'secret:PLANT' to user otto": "administer catalog",
    "revoke USE_SECRET on 'secret:PLANT' from user otto": "administer catalog",
    "list user": "MANAGE_USER",
    "list user of role crew": "MANAGE_USER",
    "list role": "MANAGE_ROLE",
    "list role of user vera": "describe catalog",
    "list privileges of user otto": "MANAGE_USER",
    "list privileges of user vera": "describe catalog",
    "list privileges of role crew": "MANAGE_ROLE",
}
"""What vera is asked for first: what the text of a statement needs, else what its stages do."""
Plan = Callable[[Session, Path], Sequence[Stage]]
JOBS: dict[str, Plan] = {
    "write table d.plain": lambda session, file: loads.plan_load(session, LoadRequest([file], "plain")),
    "write table d.readings": lambda session, file: session.stages(f"insert into dev1 (ts, a) file '{file}'"),
    "operate stream d.s": lambda session, _: backfills.plan_backfill(session, "s"),
    "read table d.readings": lambda session, _: verifications.plan_verification(session, "select a from dev1"),
    "read table d.readings, read table d.out1": lambda session, _: verifications.plan_verification(session, stream="s"),
}
TREE_JOBS: dict[str, Plan] = {
    "USE_CQ": lambda session, _: verifications.plan_verification(session, cq="tens"),
    "operate continuous query tens": lambda session, _: backfills.plan_backfill(session, None, "tens"),
    "WRITE_DATA on root.plant.line1.**, WRITE_SCHEMA on root.plant.line1.**": lambda session, file: loads.plan_load(
        session, LoadRequest([file], "root.plant", device="root.plant.line1")
    ),
    "read table root.plant.devices": lambda session, _: verifications.plan_verification(session, "select s1 from root.plant.line1"),
}


def functions_that_make_stages() -> set[str]:
    """Return the functions of all topics that make a stage and its effect; a few are given one."""
    modules = [importlib.import_module(module.name) for module in pkgutil.walk_packages(topics.__path__, f"{topics.__name__}.")]
    return {
        f"{module.__name__}.{function.name}"
        for module in modules
        for function in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(function, ast.FunctionDef) and "apply" not in [argument.arg for argument in function.args.args]
        if any(isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Stage" for node in ast.walk(function))
    }


def prepare_tables(connection: headrace.Connection) -> None:
    """Create what `STATEMENTS` name, beside the supertable `readings`, in the current database."""
    left = Path(connection.session.context.tables.uri) / "gone" / "rows"  # of a DROP that was interrupted
    left.mkdir(parents=True)
    (left / "one.parquet").touch()
    connection.execute("create table plain (ts timestamp, a int)")
    connection.execute("create table unread (ts timestamp, a int)")
    connection.execute("create vtable v (ts timestamp, a int from plain.a)")
    connection.execute("create stable virtual (ts timestamp, a int) tags (x int) virtual 1")
    connection.execute("create vtable v1 (a from plain.a) using virtual tags (1)")
    connection.execute("create stream s trigger at_once into out1 as select _wstart, count(*) n from readings interval(10s)")
    connection.session.context.catalog.members.create(2, "default")
    folder = code_folder(connection, "udf")
    (folder / "one.py").write_text(ONE)
    connection.execute("create function two as 'one.py' outputtype int language 'Python'")


def prepare_tree(connection: headrace.Connection) -> None:
    """Create what `TREE_STATEMENTS` name."""
    for kind in ("udf", "pipe"):
        (code_folder(connection, kind) / "first.py").write_text("raise SystemExit")
    connection.execute("create timeseries root.plant.line1.s1 with datatype=INT32")
    connection.execute("create cq tens begin select count(s1) into root.plant.n(c) from root.plant.line1 group by (1m) end")
    connection.execute(f"create pipe copies {DISCARD}")
    for name in ("t0", "t1"):
        connection.execute(f"create device template {name} (s1 INT32)")
    connection.execute(f"create function part as '{SPLIT}'")
    connection.execute("set device template t1 to root.plant.pumps")
    connection.execute("create timeseries using device template on root.plant.pumps.p1")


def code_folder(connection: headrace.Connection, kind: str) -> Path:
    """Return the folder of a home from which code of a kind is registered."""
    folder = connection.session.context.settings.home_path / "ext" / kind
    folder.mkdir(parents=True, exist_ok=True)
    return folder
