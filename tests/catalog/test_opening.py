from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from headrace.catalog import Catalog
from headrace.catalog.engines import open_engine
from headrace.catalog.migrate import HEAD, MIGRATIONS, OLDEST, create_tables
from headrace.catalog.rows.metadata import METADATA, VERSION_TABLE
from headrace.errors import ConfigurationError, OperationalError
from headrace.model.tables import Database
from tests.support.next_version import NEXT, release_next_version
from tests.support.racing import race

OPEN = """
import sys
from headrace.catalog import Catalog
with Catalog.open(sys.argv[1]) as catalog:
    assert catalog.databases.all() == []
print("alembic" in sys.modules)
"""


def execute(url: str, statement: str) -> None:
    engine = open_engine(url)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


def stored_versions(url: str) -> tuple[str, str]:
    """Return the version of a catalog, and that of the oldest programs which can use it."""
    engine = open_engine(url)
    with engine.connect() as connection:
        version, oldest = connection.execute(text(f"SELECT version_num, oldest FROM {VERSION_TABLE}")).one()
    engine.dispose()
    return version, oldest


def open_and_create(url: str, name: str) -> bool:
    with Catalog.open(url) as catalog:
        return catalog.databases.create(Database(name), if_not_exists=True)


def use_after_fork(url: str) -> int:
    """Return the exit status of a child that uses the catalog while its parent does."""
    with Catalog.open(url) as catalog:
        catalog.databases.create(Database("power"))
        child = os.fork()
        try:
            for _ in range(200):
                assert [database.name for database in catalog.databases.all()] == ["power"]
        finally:
            if child == 0:
                os._exit(0 if sys.exc_info()[0] is None else 1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_reopened_catalog_has_its_contents(url: str) -> None:
    assert open_and_create(url, "power")
    assert not open_and_create(url, "power")


def test_opening_a_new_or_up_to_date_catalog_leaves_alembic_alone(url: str) -> None:
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", OPEN, url], capture_output=True, text=True, check=True)
        assert done.stdout == "False\n"


def test_a_new_catalog_has_the_declared_tables(url: str) -> None:
    engine = open_engine(url)
    with engine.begin() as connection:
        create_tables(connection)
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_server_default": True})
        assert compare_metadata(context, METADATA) == []
        assert context.get_current_revision() == HEAD
        indexes = {index["name"]: index for index in inspect(connection).get_indexes("executions")}
        assert f"{connection.dialect.name}_where" in indexes["ix_executions_unfinished"]["dialect_options"]
    engine.dispose()


def test_a_catalog_of_an_older_version_is_migrated(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_and_create(url, "power")
    release_next_version(tmp_path / "migrations", monkeypatch)
    assert not open_and_create(url, "power")
    execute(url, "UPDATE jobs SET note = NULL")
    assert stored_versions(url) == (NEXT, OLDEST)


def test_a_catalog_that_does_not_record_which_programs_can_use_it_is_migrated(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_and_create(url, "power")
    execute(url, f"ALTER TABLE {VERSION_TABLE} DROP COLUMN oldest")
    assert not open_and_create(url, "power")
    release_next_version(tmp_path / "migrations", monkeypatch)
    assert not open_and_create(url, "power")
    assert stored_versions(url) == (NEXT, OLDEST)


def test_migrations_are_numbered_without_gaps_and_the_last_is_known() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    revisions = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    assert revisions == [f"{number:04}" for number in range(len(revisions), 0, -1)]
    assert revisions[0] == HEAD


def test_processes_that_open_a_new_catalog_at_once_all_succeed(url: str) -> None:
    created = race(open_and_create, [(url, "power")] * 5)
    assert sorted(created) == [False, False, False, False, True]


def test_a_catalog_of_a_newer_version_is_refused(url: str) -> None:
    open_and_create(url, "power")
    execute(url, f"UPDATE {VERSION_TABLE} SET version_num = '9999', oldest = '{NEXT}'")
    with pytest.raises(ConfigurationError, match=f"version 9999, this Headrace knows {HEAD}") as caught:
        Catalog.open(url)
    assert "upgrade" in caught.value.hint


def test_a_newer_catalog_that_has_only_grown_is_used_by_an_older_program(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Catalog.open(url) as running:
        running.databases.create(Database("before"))
        with monkeypatch.context() as newer:
            release_next_version(tmp_path / "migrations", newer)
            open_and_create(url, "migrated")
        running.databases.create(Database("while_running"))
    assert open_and_create(url, "afterwards")
    with Catalog.open(url) as opened:
        assert sorted(database.name for database in opened.databases.all()) == ["afterwards", "before", "migrated", "while_running"]
    execute(url, "UPDATE jobs SET note = NULL")
    assert stored_versions(url) == (NEXT, OLDEST), "an older program does not change the version"


def test_a_newer_catalog_that_has_changed_excludes_older_programs(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_and_create(url, "power")
    with monkeypatch.context() as newer:
        release_next_version(tmp_path / "migrations", newer, oldest=NEXT)
        open_and_create(url, "migrated")
    assert stored_versions(url) == (NEXT, NEXT)
    with pytest.raises(ConfigurationError, match=f"the catalog has version {NEXT}, this Headrace knows {HEAD} at most"):
        Catalog.open(url)


def test_no_release_migrates_under_a_living_snode_that_could_not_use_the_result(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Catalog.open(url) as older:
        lease = older.leases.acquire("boiler", "host:1", 60_000)
        assert lease is not None
        release_next_version(tmp_path / "migrations", monkeypatch, oldest=NEXT)
        with pytest.raises(ConfigurationError, match="snode boiler of an older release runs"):
            Catalog.open(url)
        older.leases.release(lease)
    open_and_create(url, "power")
    assert stored_versions(url) == (NEXT, NEXT)


@pytest.mark.parametrize(
    "change", ["ALTER TABLE {} RENAME TO others", "ALTER TABLE {} RENAME COLUMN timezone TO zone"], ids=["table", "column"]
)
def test_a_catalog_with_other_tables_than_its_version_says_is_an_error(url: str, change: str) -> None:
    open_and_create(url, "power")
    execute(url, change.format("databases"))
    with Catalog.open(url) as opened:
        for use in (opened.databases.all, lambda: opened.databases.create(Database("other"))):
            with pytest.raises(ConfigurationError, match="has other tables than this Headrace"):
                use()


def test_a_forked_child_opens_connections_of_its_own(url: str) -> None:
    assert race(use_after_fork, [(url,)]) == [0]


def test_a_catalog_can_be_closed_twice(url: str) -> None:
    catalog = Catalog.open(url)
    catalog.close()
    catalog.close()


@pytest.mark.postgres
def test_connections_that_the_server_ended_are_replaced(postgres_url: str) -> None:
    with Catalog.open(postgres_url) as catalog:
        catalog.databases.create(Database("power"))
        ended = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        execute(postgres_url, ended)
        assert [database.name for database in catalog.databases.all()] == ["power"]


@pytest.mark.postgres
def test_the_tables_live_in_a_schema_of_their_own(postgres_url: str) -> None:
    execute(postgres_url, "CREATE TABLE public.databases (other text)")
    open_and_create(postgres_url, "power")
    execute(postgres_url, "SELECT name FROM headrace.databases")
    execute(postgres_url, "SELECT other FROM public.databases")


def test_sqlite_keeps_a_write_ahead_log_so_that_readers_need_not_wait(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'catalog.db'}"
    with Catalog.open(url), open_engine(url).connect() as connection:
        assert connection.scalar(text("PRAGMA journal_mode")) == "wal"


def test_a_new_home_and_its_catalog_are_closed_to_other_users(tmp_path: Path) -> None:
    path = tmp_path / "home" / "catalog.db"
    open_and_create(f"sqlite:///{path}", "power")
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path.parent, path)] == [0o700, 0o600]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "is not a URL"),
        ("mysql://host/database", "cannot live in mysql"),
        ("sqlite://", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
    ],
)
def test_an_unsupported_url_is_refused_with_the_supported_ones(url: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        Catalog.open(url)
    assert "HEADRACE_CATALOG_URL" in caught.value.hint


def test_a_url_that_cannot_be_read_is_shown_without_its_password() -> None:
    with pytest.raises(ConfigurationError, match="is not a URL") as caught:
        Catalog.open("postgresql://someone:secret@host:port/catalog")
    assert "secret" not in str(caught.value)


def test_a_server_that_does_not_answer_is_named_without_the_password() -> None:
    with pytest.raises(OperationalError, match=r"127\.0\.0\.1") as caught:
        Catalog.open("postgresql://someone:secret@127.0.0.1:1/catalog")
    assert "secret" not in str(caught.value)


def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    path.write_text("not a database" * 100)
    with pytest.raises(ConfigurationError, match="is not a catalog"):
        Catalog.open(f"sqlite:///{path}")


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("in the way")
    with pytest.raises(ConfigurationError, match=r"catalog\.db cannot be created"):
        Catalog.open(f"sqlite:///{tmp_path / 'home' / 'catalog.db'}")
