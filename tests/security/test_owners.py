"""Who may own jobs: users, programs with tokens, and names that no one had to prove. An unknown owner may do nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

import headrace
from headrace.catalog import Catalog
from headrace.catalog.migrate import HEAD
from headrace.catalog.rows.metadata import VERSION_TABLE
from headrace.model.access import Grantee, GranteeKind, Privilege
from headrace.model.jobs import JobState
from headrace.settings import load

STREAM = "create stream s trigger at_once into out1 as select _wstart, count(*) n from t interval(10s)"


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog.open(load(home=tmp_path / "home").catalog) as opened:
        yield opened


def test_an_unknown_owner_may_do_nothing_also_if_dropped_between_two_reads(catalog: Catalog) -> None:
    access = catalog.access
    access.create_user("gone", "hash")
    permissions = access.owners()
    access.drop(Grantee(GranteeKind.USER, "gone"))
    for owner in ("gone", "never", "never token 12"):
        for now in (permissions(owner), access.owner_permissions(owner)):
            assert not now.is_administrator
            assert not now.allows(Privilege.USE_CQ)
    for owner in ("", "root"):
        assert access.owner_permissions(owner).is_administrator


def test_a_name_that_no_one_had_to_prove_has_all_rights_until_a_user_has_it(catalog: Catalog) -> None:
    access = catalog.access
    before = access.owners()
    assert access.trust("ann") == "ann"
    assert before("ann").is_administrator
    assert access.owner_permissions("ann").is_administrator
    access.create_user("ann", "hash")
    assert not access.owner_permissions("ann").is_administrator
    assert access.trust("ann") == "root"
    access.drop(Grantee(GranteeKind.USER, "ann"))
    assert not access.owner_permissions("ann").is_administrator
    assert access.trust("ann") == "root"
    assert not access.owner_permissions("ann").is_administrator


def test_jobs_of_sessions_that_no_one_had_to_prove_run_on(tmp_path: Path) -> None:
    with headrace.connect(tmp_path / "home", user="ann") as connection:
        for sql in ("create database d", "use d", "create table t (ts timestamp, a int)", STREAM):
            connection.execute(sql)
        connection.execute("insert into t values (now, 1)")
        connection.settle()
        (record,) = connection.session.context.catalog.jobs.all()
        assert (record.definition.owner, record.state) == ("ann", JobState.RUNNING)
        with headrace.connect(tmp_path / "home", dialect="iotdb") as tree:
            tree.execute("create user vera 'secret12'")
        connection.execute("insert into t values (now + 1s, 1)")
        connection.settle()
        (record,) = connection.session.context.catalog.jobs.all()
        assert record.state is JobState.RUNNING


@pytest.mark.parametrize(
    ("owner", "trusted"), [("ann", ["ann"]), ("vera", []), ("gone", []), ("vera token 12", []), ("", []), ("root", [])]
)
def test_a_migration_trusts_owners_that_are_and_were_no_users(tmp_path: Path, owner: str, trusted: list[str]) -> None:
    settings = load(home=tmp_path / "home")
    with headrace.connect(settings=settings, user="ann") as connection:
        for sql in ("create database d", "use d", "create table t (ts timestamp, a int)", STREAM):
            connection.execute(sql)
        access = connection.session.context.catalog.access
        for user in ("vera", "gone"):
            access.create_user(user, "hash")
        access.drop(Grantee(GranteeKind.USER, "gone"))
        with access._store.write() as write:
            write.execute(text("DROP TABLE trusted_owners"))
            write.execute(text("ALTER TABLE tables DROP COLUMN external"))
            write.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0003'"))
            write.execute(text("UPDATE jobs SET owner = :owner"), {"owner": owner})
    with Catalog.open(settings.catalog) as catalog, catalog.access._store.read() as read:
        assert read.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}")) == HEAD
        assert read.scalars(text("SELECT name FROM trusted_owners")).all() == trusted
