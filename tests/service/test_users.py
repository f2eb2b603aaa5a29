"""What users with few rights see and may do, and what becomes of their jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.errors import AuthenticationError, PermissionDeniedError
from headrace.model.connections import Origin
from headrace.model.jobs import JobState
from headrace.runtime.authentication import authenticator
from headrace.settings import load

START = 1_700_000_000_000
PASSWORD = "secret12"
CQ = "create cq q resample every 10s begin select count(s1) into root.plant.out(n) from root.plant.a group by (10s) end"


@pytest.fixture
def root(tmp_path: Path) -> Iterator[headrace.Connection]:
    """Provide the administrator's connection to a tree with the users vera and otto."""
    with headrace.connect(tmp_path / "home", dialect="iotdb", clock=headrace.ManualClock(START)) as connection:
        for device in ("root.plant.a", "root.plant.b", "root.hidden.c"):
            connection.execute(f"insert into {device}(time, s1, s2) values ({START - 5000}, 1, 2)")
        connection.execute(f"create user vera '{PASSWORD}'")
        connection.execute(f"create user otto '{PASSWORD}'")
        yield connection


def connected(root: headrace.Connection, user: str, password: str = PASSWORD, dialect: str = "iotdb") -> headrace.Connection:
    home = root.session.context.settings.home_path
    return headrace.connect(home, dialect=dialect, clock=root.clock, user=user, password=password)


def rows(connection: headrace.Connection, sql: str) -> list[tuple[object, ...]]:
    return connection.execute(sql).fetchall()


def test_paths_that_a_user_may_not_read_do_not_exist(root: headrace.Connection) -> None:
    with connected(root, "vera") as vera:
        assert rows(vera, "show databases") == rows(vera, "show devices") == rows(vera, "show timeseries") == []
        assert rows(vera, "count timeseries root.**") == [(0,)]
        assert rows(vera, "select * from root.**") == []
        assert rows(vera, "select last * from root.**") == []
        assert rows(vera, "show child paths root") == []
        assert rows(vera, "count nodes root.** level=1") == [(0,)]
        root.execute("grant READ on root.plant.a.s1 to user vera")
        assert [row[0] for row in rows(vera, "show timeseries")] == ["root.plant.a.s1"]
        assert [row[0] for row in rows(vera, "show databases")] == ["root.plant"]
        assert [row[0] for row in rows(vera, "show devices")] == ["root.plant.a"]
        cursor = vera.execute("select * from root.**")
        assert [name for name, *_ in cursor.description or ()] == ["Time", "root.plant.a.s1"]
        assert rows(vera, "select last * from root.**")[0][1] == "root.plant.a.s1"
        assert rows(vera, "select count(s1) from root.** group by level = 1") == [(1,)]
        text = str(rows(vera, "explain select * from root.**"))
        assert "hidden" not in text
        assert "s2" not in text
        root.execute("revoke READ on root.plant.a.s1 from user vera")
        assert rows(vera, "select * from root.**") == []


def test_a_refusal_is_recorded_and_names_only_what_the_statement_names(root: headrace.Connection) -> None:
    with connected(root, "vera") as vera:
        for sql in ("delete from root.**", "drop cq missing", "insert into root.hidden.c(time, s1) values (1, 1)"):
            with pytest.raises(PermissionDeniedError, match="803: No permissions"):
                vera.execute(sql)
        with pytest.raises(PermissionDeniedError, match="803: Only the admin user"):
            vera.execute("show audit log")
        with pytest.raises(PermissionDeniedError, match="MANAGE_USER"):
            vera.execute("alter user otto set password 'secret99'")
    with pytest.raises(AuthenticationError):
        connected(root, "vera", "wrong-password")
    entries = rows(root, "show audit log")
    assert [(user, action, allowed) for _, user, _, action, _, allowed, _ in entries][:6] == [
        ("vera", "LOGIN", False),
        ("vera", "ALTER", False),
        ("vera", "SHOW", False),
        ("vera", "INSERT", False),
        ("vera", "DROP", False),
        ("vera", "DELETE", False),
    ]
    assert "secret" not in str(entries)
    assert ("CREATE", True) in [(action, allowed) for _, _, _, action, _, allowed, _ in entries]


def test_writing_needs_rights_on_new_series_and_databases(root: headrace.Connection) -> None:
    root.execute("grant WRITE_DATA on root.** to user vera")
    with connected(root, "vera") as vera:
        vera.execute("insert into root.plant.a(time, s1) values (1, 1)")
        for sql, lacking in (
            ("insert into root.plant.a(time, s9) values (1, 1)", r"WRITE_SCHEMA on \[root.plant.a.s9\]"),
            ("insert into root.fresh.a(time, s1) values (1, 1)", "MANAGE_DATABASE"),
            ("select s1 into root.plant.copy(s1) from root.plant.a", r"WRITE_SCHEMA on \[root.plant.copy.s1\]"),
        ):
            with pytest.raises(PermissionDeniedError, match=lacking):
                vera.execute(sql)
    assert [row[0] for row in rows(root, "show databases")] == ["root.hidden", "root.plant"]
    assert len(rows(root, "show timeseries root.plant.**")) == 4


def test_only_who_has_the_option_grants(root: headrace.Connection) -> None:
    root.execute("grant READ_DATA on root.plant.** to user vera with grant option")
    with connected(root, "vera") as vera, connected(root, "otto") as otto:
        vera.execute("grant READ_DATA on root.plant.a.** to user otto")
        assert len(rows(otto, "select * from root.**")) == 1
        for sql in ("grant READ_DATA on root.** to user otto", "grant WRITE_DATA on root.plant.a.** to user otto"):
            with pytest.raises(PermissionDeniedError, match="817: Has no permission to execute GRANT_USER"):
                vera.execute(sql)
        with pytest.raises(PermissionDeniedError, match="817: Has no permission to execute REVOKE_USER"):
            otto.execute("revoke READ_DATA on root.plant.a.** from user otto")


def test_a_continuous_query_stops_when_its_owner_loses_the_rights(root: headrace.Connection) -> None:
    root.execute("grant USE_CQ on root.** to user vera")
    root.execute("grant READ on root.plant.a.** to user vera")
    root.execute("grant WRITE on root.plant.out.** to user vera")
    with connected(root, "vera") as vera:
        vera.execute(CQ)
    root.clock.advance(10_000)
    root.settle()
    written = rows(root, "select n from root.plant.out")
    assert written
    root.execute("revoke WRITE on root.plant.out.** from user vera")
    root.clock.advance(10_000)
    root.settle()
    (record,) = root.session.context.catalog.jobs.all()
    assert record.state is JobState.STOPPED
    assert "the owner vera has no privilege WRITE_DATA on [root.plant.out.n]" in str(record.reason)
    assert rows(root, "select n from root.plant.out") == written


def test_a_stream_stops_when_its_owner_is_dropped(root: headrace.Connection) -> None:
    with headrace.connect(root.session.context.settings.home_path, clock=root.clock) as admin:
        admin.execute("create database power")
        admin.execute("create table power.t (ts timestamp, a int)")
        admin.execute("grant all on power.* to vera")
        with connected(root, "vera", dialect="tdengine") as vera:
            vera.execute("use power")
            vera.execute("create stream s trigger at_once into out1 as select _wstart, count(*) n from t interval(10s)")
        admin.execute("insert into power.t values (now, 1)")
        admin.settle()
        context = admin.session.context
        target = context.catalog.tables.get("power", "out1")
        version = context.tables.version(target)
        assert context.tables.rows(target) == 1
        admin.execute("drop user vera")
        admin.execute("insert into power.t values (now + 1s, 1)")
        admin.settle()
        (record,) = admin.session.context.catalog.jobs.all()
        assert record.state is JobState.STOPPED
        assert record.reason is not None
        assert record.reason.code == "PERMISSION_DENIED"
        assert context.tables.version(target) == version


def test_users_of_tables_learn_nothing_of_others(root: headrace.Connection) -> None:
    with headrace.connect(root.session.context.settings.home_path, clock=root.clock) as admin:
        for sql in ("create database power", "create database secrets", "use power", "create table t (ts timestamp, a int)"):
            admin.execute(sql)
        admin.execute("create table u (ts timestamp, a int)")
        admin.execute("grant read on power.t to vera")
    with connected(root, "vera", dialect="tdengine") as vera:
        assert rows(vera, "explain select * from power.t")
        assert rows(vera, "show databases") == [("power", "ms")]
        assert [name for (name,) in rows(vera, "select table_name from information_schema.ins_tables")] == ["t"]
        refused = []
        for name in ("power.u", "power.missing", "secrets.x", "missing.x"):
            for sql in (f"select * from {name}", f"insert into {name} values (now, 1)", f"explain select * from {name}"):
                with pytest.raises(PermissionDeniedError) as caught:
                    vera.execute(sql)
                refused.append(caught.value.message)
        assert set(refused) == {"Permission denied or target object not exist"}


def test_privileges_on_a_supertable_are_those_on_its_subtables(root: headrace.Connection) -> None:
    with headrace.connect(root.session.context.settings.home_path, clock=root.clock) as admin:
        for sql in ("create database power", "create stable power.meters (ts timestamp, a int) tags (g int)"):
            admin.execute(sql)
        admin.execute("create table power.d1 using power.meters tags (1) power.d2 using power.meters tags (2)")
        admin.execute("grant read on power.meters to vera")
        with connected(root, "vera", dialect="tdengine") as vera:
            assert [name for name, *_ in rows(vera, "describe power.d1")] == ["ts", "a", "g"]
            assert rows(vera, "show tags from power.d1")[0][-1] == "1"
            for sql in ("drop table power.d1", "alter table power.d1 ttl 5", "create table power.d3 using power.meters tags (3)"):
                with pytest.raises(PermissionDeniedError):
                    vera.execute(sql)
            admin.execute("grant write on power.meters to vera")
            vera.execute("drop table power.d1")
    assert [row[0] for row in rows(root, "show devices root.power.**")] == ["root.power.meters.d2"]


def test_a_token_is_valid_until_it_is_revoked_or_expires(root: headrace.Connection) -> None:
    context = root.session.context
    root.execute("grant WRITE on root.plant.** to user vera")
    reading = context.catalog.tokens.create("vera", "dashboard", reads_only=True)
    short = context.catalog.tokens.create("vera", "job", expires=START + 1000)
    with connected(root, "vera", reading) as program, connected(root, "vera", short) as job:
        assert len(rows(program, "show devices")) == 2
        with pytest.raises(PermissionDeniedError):
            program.execute("insert into root.plant.a(time, s1) values (1, 1)")
        with pytest.raises(PermissionDeniedError):
            program.execute("alter user vera set password 'secret99'")
        job.execute("insert into root.plant.a(time, s1) values (1, 1)")
        root.clock.advance(1000)
        with pytest.raises(AuthenticationError):
            job.execute("insert into root.plant.a(time, s1) values (2, 1)")
        assert context.catalog.tokens.forget(context.clock.now() + 1) == 1
        assert [token.reads_only for token in context.catalog.tokens.all()] == [True]
        context.catalog.tokens.revoke(next(token.id for token in context.catalog.tokens.all() if token.reads_only))
        with pytest.raises(AuthenticationError):
            rows(program, "show devices")
    with pytest.raises(AuthenticationError):
        authenticator(context)("otto", reading, Origin("python"))


def test_a_password_is_needed_once_there_are_users_or_if_the_setting_says_so(tmp_path: Path) -> None:
    home = tmp_path / "h"
    with headrace.connect(home, user="vera") as connection:
        assert connection.user == "vera"
        connection.execute("create user vera pass 'secret12'")
    with pytest.raises(AuthenticationError, match="user vera needs a password"):
        headrace.connect(home, user="vera")
    with (
        headrace.connect(settings=load(home=home, user="vera", password="secret12")) as connection,
        pytest.raises(PermissionDeniedError),
    ):
        connection.execute("create database d")
    with headrace.connect(home) as connection:
        connection.execute("create database d")
    with pytest.raises(AuthenticationError, match="user root needs a password"):
        headrace.connect(settings=load(home=home, auth="required"))
