"""A job may do what its owner may: who creates or changes it needs what its kind says of it, and so does its owner at each run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace
from headrace.context import Context
from headrace.errors import Error, PermissionDeniedError, ProgrammingError
from headrace.jobs.needs import needs_of
from headrace.jobs.registry import kinds
from headrace.model.access import Grant, Permissions, Privilege
from headrace.model.egress import Endpoint, EndpointKind
from headrace.model.jobs import JobDefinition
from headrace.model.needs import Needs
from headrace.model.paths import PathPattern, split_path
from headrace.model.pipes import PipeStage
from headrace.model.tables import TableId
from headrace.model.triggers import TriggerActivity, TriggerState
from headrace.pipes.builtin import PLUGINS
from headrace.pipes.feeds import Feeds
from headrace.pipes.runner import PipeRunner
from headrace.pipes.shared import Shared
from headrace.runtime.owner_rights import OwnerRights
from headrace.service.authorization import is_allowed
from headrace.service.rights import need_rights

PASSWORD = "secret12"
TABLES = (
    *("create database src", "create database dst"),
    "create stable src.meters (ts timestamp, amps int) tags (site int)",
    "create table src.m1 using src.meters tags (1)",
    "insert into src.m1 values (1700000000000, 77)",
    "grant read on src.* to anna",
    "grant write on dst.* to anna",
    "grant write on dst.* to otto",
)
QUERY = "into dst.hourly as select _wstart, max(amps) peak from src.meters interval(1h)"
NOTIFY = " notify('ws://{}/hook') on ('WINDOW_CLOSE')"
PIPE = "create pipe p with source ('source'='table-source', 'database'='src', 'table'='meters') with sink ({})"
CODE = """
from headrace.trigger import Trigger
class Quiet(Trigger):
    def fire(self, tablet):
        return True
"""

FUNCTION = "def init(): pass\ndef destroy(): pass\ndef process(block): return [1] * block.shape()[0]\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[headrace.Connection]:
    """Provide the administrator of trees in a home with the users anna, who may read src, and otto, who may not."""
    monkeypatch.setenv("HEADRACE_EGRESS", "*")
    with headrace.connect(tmp_path / "home", dialect="iotdb") as connection:
        for user in ("anna", "otto"):
            connection.execute(f"create user {user} '{PASSWORD}'")
            for privilege in ("USE_PIPE", "USE_CQ", "USE_TRIGGER"):
                connection.execute(f"grant {privilege} on root.** to user {user}")
        with headrace.connect(tmp_path / "home") as tables:
            for sql in TABLES:
                tables.execute(sql)
        connection.execute("create timeseries root.plant.a.s1 with datatype=INT32")
        connection.execute("grant READ_DATA on root.plant.** to user anna")
        yield connection


def connect(root: headrace.Connection, user: str, dialect: str = "tdengine") -> headrace.Connection:
    home = context_of(root).settings.home_path
    return headrace.connect(home, dialect=dialect, user=user, password=PASSWORD)


def run(root: headrace.Connection, user: str, sql: str, dialect: str = "tdengine") -> None:
    with connect(root, user, dialect) as connection:
        connection.execute(sql)


def refusal(root: headrace.Connection, user: str, sql: str, dialect: str = "tdengine") -> str:
    with connect(root, user, dialect) as connection, pytest.raises(PermissionDeniedError) as raised:
        connection.execute(sql)
    return raised.value.message


def as_root(root: headrace.Connection, sql: str) -> None:
    with headrace.connect(context_of(root).settings.home_path) as tables:
        tables.execute(sql)


def context_of(root: headrace.Connection) -> Context:
    return root.session.context


def job(root: headrace.Connection, kind: str) -> JobDefinition:
    (record,) = context_of(root).catalog.jobs.all(kind=kind)
    return record.definition


# Streams


@pytest.mark.parametrize(
    "sql",
    [
        f"create or replace stream dst.s {QUERY}{NOTIFY.format('attacker.example.net')}",
        f"create or replace stream dst.s {QUERY.replace('1h', '2h')}",
        "alter stream dst.s watermark 1s",
        "reset stream dst.s",
        f"create stream dst.t {QUERY.replace('hourly', 'daily')}",
    ],
)
def test_a_stream_is_changed_by_who_may_read_its_source(root: headrace.Connection, sql: str) -> None:
    run(root, "anna", f"create stream dst.s {QUERY}")
    before = job(root, "stream")
    assert refusal(root, "otto", sql) == "Permission denied or target object not exist"
    assert job(root, "stream") == before


def test_who_replaces_a_stream_becomes_its_owner(root: headrace.Connection) -> None:
    run(root, "anna", f"create stream dst.s {QUERY}{NOTIFY.format('one.example.com')}")
    as_root(root, "grant read on src.* to otto")
    run(root, "otto", f"create or replace stream dst.s {QUERY}{NOTIFY.format('two.example.com')}")
    assert (job(root, "stream").owner, "two" in job(root, "stream").sql) == ("otto", True)
    as_root(root, "revoke read on src.* from otto")
    with pytest.raises(PermissionDeniedError, match=r"the owner otto has no privilege READ on src\.meters"):
        OwnerRights(context_of(root).catalog).check(job(root, "stream"))
    run(root, "anna", f"create or replace stream dst.s {QUERY.replace('1h', '2h')}")
    assert job(root, "stream").owner == "anna"


def test_only_its_owner_and_root_alter_a_stream(root: headrace.Connection) -> None:
    run(root, "anna", f"create stream dst.s {QUERY}")
    as_root(root, "grant read on src.* to otto")
    refusal(root, "otto", "alter stream dst.s watermark 1s")
    run(root, "anna", "alter stream dst.s watermark 2s")
    as_root(root, "alter stream dst.s watermark 3s")
    run(root, "otto", "reset stream dst.s")
    assert ("WATERMARK 3s" in job(root, "stream").sql, job(root, "stream").owner) == (True, "anna")
    as_root(root, "revoke read on src.* from anna")
    refusal(root, "anna", "alter stream dst.s watermark 4s")


# Pipes


def test_a_pipe_reads_tables_that_its_owner_may_read(root: headrace.Connection) -> None:
    create = PIPE.format("'sink'='do-nothing-sink'")
    refusal(root, "otto", create, "iotdb")
    refusal(root, "otto", f"explain {create}", "iotdb")
    run(root, "anna", create, "iotdb")
    context = replace(context_of(root), user="")
    runner = PipeRunner(context, context.catalog.jobs.by_id(job(root, "pipe").id), Shared(Feeds(context)))
    runner.advance()
    as_root(root, "revoke read on src.* from anna")
    with pytest.raises(PermissionDeniedError, match=r"the owner anna has no privilege READ on src\.meters"):
        OwnerRights(context.catalog).check(job(root, "pipe"))
    with pytest.raises(PermissionDeniedError, match=r"READ on src\.meters"):
        runner.advance()
    runner.close()


def test_a_pipe_reads_series_that_its_owner_may_read(root: headrace.Connection) -> None:
    create = "create pipe p with source ({}) with sink ('sink'='do-nothing-sink')"
    plant, schema = "'path'='root.plant.**'", "'path'='root.plant.**', 'inclusion'='data, schema'"
    assert "READ_DATA on [root.plant.**]" in refusal(root, "otto", create.format(plant), "iotdb")
    assert "READ_DATA on [root.plant.**]" in refusal(root, "otto", create.format("'pattern'='root.plant.a'"), "iotdb")
    assert "READ_SCHEMA on [root.plant.**]" in refusal(root, "anna", create.format(schema), "iotdb")
    assert "MANAGE_USER" in refusal(root, "anna", create.format("'inclusion'='data, auth.user'"), "iotdb")
    run(root, "anna", create.format(plant), "iotdb")


def test_only_its_owner_and_root_alter_a_pipe(root: headrace.Connection) -> None:
    run(root, "anna", PIPE.format("'sink'='do-nothing-sink'"), "iotdb")
    as_root(root, "grant read on src.* to otto")
    for change in (
        "modify sink ('a'='b')",
        "replace sink ('sink'='do-nothing-sink', 'a'='c')",
        "modify source ('inclusion'='data')",
    ):
        assert refusal(root, "otto", f"alter pipe p {change}", "iotdb") == "803: Only its owner and root can alter the pipe p"
        run(root, "anna", f"alter pipe p {change}", "iotdb")
        root.execute(f"alter pipe p {change}")
    assert job(root, "pipe").owner == "anna"
    refusal(root, "anna", "alter pipe p modify source ('database'='payroll')", "iotdb")
    as_root(root, "revoke read on src.* from anna")
    refusal(root, "anna", "alter pipe p modify sink ('a'='d')", "iotdb")


@pytest.mark.parametrize(
    "change",
    [
        "'node-urls'='other:6667'",
        "'sink.user'='another'",
        "'connector.ip'='other'",
        "'ssl.enable'='false'",
        "'sink'='kafka-sink', 'bootstrap.servers'='k:1', 'topic'='t'",
    ],
)
def test_a_stored_password_goes_to_no_other_receiver(
    root: headrace.Connection, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    import headrace.service.topics.trees.pipes as topic

    monkeypatch.setattr(topic, "check_receiver", lambda *_: None)  # there is none
    sink = "'sink'='iotdb-thrift-sink', 'node-urls'='plant:6667', 'user'='replica', 'password'='{}'"
    run(root, "anna", PIPE.format(sink.format("of-anna")), "iotdb")
    for user in (connect(root, "anna", "iotdb"), root):
        with pytest.raises(ProgrammingError, match="password has to be stated again"):
            user.execute(f"alter pipe p modify sink ({change})")
    run(root, "anna", "alter pipe p modify sink ('rate-limit-bytes-per-second'='1000')", "iotdb")
    if "'sink'" not in change:
        run(root, "anna", f"alter pipe p modify sink ({change}, 'password'='again')", "iotdb")


# Continuous queries


def test_a_continuous_query_is_created_by_who_may_read_and_write_its_series(root: headrace.Connection) -> None:
    create = "create cq q resample every 1h begin select count(s1) into root.plant.out(n) from root.plant.a group by (1h) end"
    assert "READ_DATA on [root.plant.a.s1]" in refusal(root, "otto", create, "iotdb")
    assert "WRITE_DATA on [root.plant.out.n]" in refusal(root, "anna", create, "iotdb")
    root.execute("grant WRITE on root.plant.out.** to user anna")
    run(root, "anna", create, "iotdb")
    OwnerRights(context_of(root).catalog).check(job(root, "continuous query"))
    root.execute("revoke READ_DATA on root.plant.** from user anna")
    with pytest.raises(PermissionDeniedError, match=r"READ_DATA on \[root\.plant\.a\.s1\]"):
        OwnerRights(context_of(root).catalog).check(job(root, "continuous query"))


# Triggers


def test_a_trigger_gets_values_that_its_owner_may_read(root: headrace.Connection) -> None:
    folder = context_of(root).settings.home_path / "ext" / "trigger"
    folder.mkdir(parents=True)
    (folder / "quiet.py").write_text(CODE)
    create = "create stateless trigger quiet after insert on {} as 'quiet.Quiet'"
    assert "READ_DATA on [root.plant.**]" in refusal(root, "otto", create.format("root.plant.**"), "iotdb")
    assert "READ_DATA on [root.**]" in refusal(root, "anna", create.format("root.**"), "iotdb")
    run(root, "anna", create.format("root.plant.*.s1"), "iotdb")
    root.execute("insert into root.plant.a(time, s1) values (1, 1)")
    (trigger,) = context_of(root).catalog.triggers.all()
    context_of(root).catalog.trigger_activities.count(trigger.id, TriggerActivity(1, 1, 1, 1, "4711 is no dose", 1))
    for user, is_shown in (("anna", True), ("otto", False)):
        with connect(root, user, "iotdb") as connection:
            assert ("4711" in str(connection.execute("show triggers details").fetchall())) is is_shown
    root.execute("revoke READ_DATA on root.plant.** from user anna")
    root.execute("grant READ_DATA on root.plant.a.s1 to user anna")
    root.execute("insert into root.plant.a(time, s1) values (2, 1)")
    (trigger,) = context_of(root).catalog.triggers.all()
    assert trigger.state is TriggerState.INACTIVE
    assert trigger.reason == "the owner anna has no privilege READ_DATA on [root.plant.*.s1]"
    assert context_of(root).catalog.trigger_activities.all()[trigger.id].calls == 2


# Code


def test_only_its_owner_and_root_replace_a_function(root: headrace.Connection) -> None:
    folder = context_of(root).settings.home_path / "ext" / "udf"
    folder.mkdir(parents=True)
    (folder / "one.py").write_text(FUNCTION)
    for user in ("anna", "otto"):
        root.execute(f"grant USE_UDF on root.** to user {user}")
    create = "create {} function one as 'one.py' outputtype int language 'Python'"
    run(root, "anna", create.format(""))
    assert refusal(root, "otto", create.format("or replace")) == "803: Only its owner and root can alter the function one"
    run(root, "anna", create.format("or replace"))
    as_root(root, create.format("or replace"))
    refusal(root, "anna", create.format("or replace"))


# All kinds

PATHS = ("root.**", "root.a.**", "root.a.*.s1", "root.a.d.s1", "root.b.**")
GRANTED = ("root.**", "root.a.**", "root.a.d.**", "root.a.d.s1")
TARGETS = [TableId(database, table) for database in ("x", "y") for table in ("t", "u")]
needs = st.builds(
    Needs,
    privileges=st.lists(st.sampled_from([Privilege.USE_CQ, Privilege.USE_PIPE]), max_size=2, unique=True).map(tuple),
    reads=st.lists(st.sampled_from(TARGETS), max_size=2, unique=True).map(tuple),
    writes=st.lists(st.sampled_from(TARGETS), max_size=1).map(tuple),
    reads_some=st.lists(st.sampled_from(PATHS), max_size=2).map(lambda paths: tuple(PathPattern(split_path(one)) for one in paths)),
    paths=st.lists(
        st.tuples(
            st.sampled_from([Privilege.READ_DATA, Privilege.WRITE_DATA, Privilege.READ_SCHEMA]),
            st.sampled_from(PATHS).map(lambda path: PathPattern(split_path(path))),
        ),
        max_size=2,
    ).map(tuple),
    secrets=st.lists(st.sampled_from(["secret:K", "airflow:k"]), max_size=2, unique=True).map(tuple),
)
grants = st.one_of(
    st.builds(Grant, st.sampled_from([Privilege.USE_CQ, Privilege.USE_PIPE]), st.just("root.**")),
    st.builds(Grant, st.just(Privilege.USE_SECRET), st.sampled_from(["secret:K", "airflow:k"])),
    st.builds(
        Grant, st.sampled_from([Privilege.READ_TABLE, Privilege.WRITE_TABLE]), st.sampled_from(["*.*", "x.*", "x.t", "y.u", "y.*"])
    ),
    st.builds(
        Grant,
        st.sampled_from([Privilege.READ_DATA, Privilege.WRITE_DATA, Privilege.READ_SCHEMA, Privilege.WRITE_SCHEMA]),
        st.sampled_from(GRANTED),
    ),
)


@given(needs, st.lists(grants, max_size=8))
def test_a_statement_and_a_run_ask_for_the_same(needed: Needs, granted: list[Grant]) -> None:
    permissions = Permissions("anna", tuple(("", grant) for grant in granted))
    assert all(is_allowed(right, permissions) for right in need_rights(needed)) == (needed.lacking(permissions) is None)


def test_every_kind_says_what_its_jobs_need(root: headrace.Connection) -> None:
    root.execute(PIPE.format("'sink'='kafka-sink', 'bootstrap.servers'='k:1', 'topic'='t', 'sasl.password'='secret:K'"))
    root.execute("create cq q resample every 1h begin select s1 into root.plant.out(n) from root.plant.a end")
    as_root(root, f"create stream dst.s {QUERY}{NOTIFY.format('one.example.com')}")
    catalog = context_of(root).catalog
    declared = {record.definition.kind: needs_of(catalog, record.definition) for record in catalog.jobs.all()}
    source, target, out = TableId("src", "meters"), TableId("dst", "hourly"), PathPattern(("root", "plant", "out", "n"))
    assert declared == {
        "stream": Needs(reads=(source,), writes=(target,), endpoints=(Endpoint(EndpointKind.NOTIFY, "ws://one.example.com/hook"),)),
        "pipe": Needs(
            privileges=(Privilege.USE_PIPE,),
            reads=(source,),
            endpoints=(Endpoint(EndpointKind.KAFKA, "k:1"),),
            secrets=("secret:K",),
        ),
        "continuous query": Needs(
            privileges=(Privilege.USE_CQ,),
            reads_some=(PathPattern(("root", "plant", "a", "s1")),),
            paths=((Privilege.WRITE_DATA, out),),
        ),
    }
    assert {kind.name for kind in kinds()} == declared.keys(), "say here what jobs of a new kind need"


def test_every_plugin_that_reads_tables_says_which() -> None:
    assert {plugin.name for plugin in PLUGINS if plugin.begin is not None} == {plugin.name for plugin in PLUGINS if plugin.needs}


def test_every_plugin_with_passwords_says_who_gets_them() -> None:
    silent = {plugin.name for plugin in PLUGINS if plugin.receiver is None and plugin.stage is not PipeStage.PROCESSOR}
    # These send none, so all attributes count as theirs.
    assert silent == {"iotdb-source", "table-source", "write-back-sink", "delta-sink"}


def test_errors_of_needs_are_ours(root: headrace.Connection) -> None:
    broken = replace(JobDefinition("x", "pipe", "", "x", "", "iotdb", (), None, 0), kind="unknown")
    with pytest.raises(Error, match="jobs of the kind unknown are not known"):
        needs_of(context_of(root).catalog, broken)
