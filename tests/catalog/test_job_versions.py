"""The catalog keeps what defined a job before, through ALTER, replacement and migration."""

from __future__ import annotations

from dataclasses import replace

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from headrace.catalog import Catalog
from headrace.catalog.engines import open_engine
from headrace.catalog.job_versions import MAX_VERSIONS
from headrace.catalog.rows.metadata import METADATA, VERSION_TABLE
from headrace.model.clock import ManualClock
from headrace.model.job_versions import JobVersion
from headrace.model.jobs import DesiredState, JobDefinition, JobProgress
from headrace.runtime.stream_metrics import TOTALS
from tests.catalog.samples import with_stream


def alter(catalog: Catalog, stream: JobDefinition, sql: str, user: str = "vera") -> None:
    catalog.jobs.redefine(replace(stream, sql=sql), user=user)


def statements(catalog: Catalog, job_id: str) -> list[tuple[int, str]]:
    return [(version.number, version.sql) for version in catalog.job_versions.all(job_id)]


def test_each_change_of_a_statement_is_a_version_with_its_user_and_time(catalog: Catalog, clock: ManualClock) -> None:
    stream = with_stream(catalog)
    clock.advance(1_000)
    alter(catalog, stream, "CREATE STREAM changed")
    first, second = catalog.job_versions.all(stream.id)
    assert first == JobVersion(stream.id, 1, stream.created, stream.owner, stream.sql)
    assert second == JobVersion(stream.id, 2, clock.now(), "vera", "CREATE STREAM changed")


def test_a_change_that_keeps_the_statement_is_no_version(catalog: Catalog) -> None:
    stream = with_stream(catalog)
    alter(catalog, stream, stream.sql)
    assert statements(catalog, stream.id) == [(1, stream.sql)]


def test_a_job_continues_the_versions_of_the_one_that_it_replaces(catalog: Catalog) -> None:
    old = with_stream(catalog)
    alter(catalog, old, "second")
    new = replace(old, id="new", sql="third", owner="paul", created=9)
    catalog.jobs.replace(old.id, new, desired=DesiredState.RUNNING, target=None, progress=JobProgress())
    assert statements(catalog, "new") == [(1, old.sql), (2, "second"), (3, "third")]
    assert catalog.job_versions.all("new")[-1] == JobVersion("new", 3, 9, "paul", "third")
    assert catalog.job_versions.all(old.id) == []


def test_old_versions_are_removed_and_all_of_a_job_that_is_dropped(catalog: Catalog) -> None:
    stream = with_stream(catalog)
    for number in range(2, MAX_VERSIONS + 3):
        alter(catalog, stream, f"version {number}")
    assert [number for number, _ in statements(catalog, stream.id)] == list(range(3, MAX_VERSIONS + 3))
    catalog.jobs.drop(stream.id)
    assert catalog.job_versions.all() == []


def test_the_statements_of_existing_jobs_become_their_first_versions(url: str) -> None:
    with Catalog.open(url) as catalog:
        stream = with_stream(catalog)
    engine = open_engine(url)
    with engine.begin() as connection:
        for table in ("job_versions", "window_notes", "trusted_owners"):
            connection.execute(text(f"DROP TABLE {table}"))
        for column in TOTALS:
            connection.execute(text(f"ALTER TABLE stream_metrics DROP COLUMN {column}"))
        connection.execute(text("ALTER TABLE tables DROP COLUMN external"))
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0001'"))
    with Catalog.open(url) as catalog:
        expected = JobVersion(stream.id, 1, stream.created, stream.owner, stream.sql)
        assert catalog.job_versions.all() == [expected]
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_server_default": True})
        assert compare_metadata(context, METADATA) == []
    engine.dispose()
