"""Tables by name in a Hive metastore, for Spark and other engines that look tables up there."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from headrace.compute.nodes import quote, string_sql
from headrace.context import Context
from headrace.errors import OperationalError
from headrace.jobs.lineage import job_lineage
from headrace.model.job_parts import part_number
from headrace.model.jobs import DesiredState, JobDefinition
from headrace.model.lineage import Lineage
from headrace.model.masking import mask_secrets
from headrace.model.spark_options import Role
from headrace.model.tables import Table, TableId, TableKind
from headrace.settings import Settings
from headrace.storage.delta.handles import first_line, rows_uri, spark_path, tags_uri
from headrace.storage.spark.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

IMPLEMENTATION: Final = "spark.sql.catalogImplementation"
NAME: Final = re.compile(r"[a-z0-9_]{1,128}")
"""Names that a metastore has as they are. It ignores case."""
FIELD: Final = r"^{}: (.*)$"
"""A line of what Spark shows of a table."""
TAGS: Final = "_tags"
"""What follows the name of a supertable in that of the table of its tags."""
MAX_COMMENT: Final = 1_000
"""Characters of a comment. Metastores store at most 4,000 bytes."""
FAILED: Final = "METASTORE_FAILED"
"""The event that tables could not be registered. The next maintenance tries it again."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the metastore has of a table: its folder, empty if it has none, and its comment."""

    location: str
    comment: str


def register_tables(context: Context) -> None:
    """Make the metastore of the settings have the tables of the catalog, and no other table below the warehouse.

    Raises:
        OperationalError: The metastore cannot be reached, or has refused some tables, which an event says too.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        refused = Registration(open_metastore(context.settings), context).synchronize()
    except (PySparkException, Py4JError, OperationalError) as error:
        refused = [first_line(error)]
    if refused:
        message = mask_secrets(f"tables cannot be registered in the metastore: {'; '.join(refused)[:MAX_COMMENT]}")
        context.catalog.events.record("metastore", "metastore", FAILED, message)
        raise OperationalError(message, hint="check HEADRACE_METASTORE, and that it runs; the next maintenance tries again")


def open_metastore(settings: Settings) -> SparkSession:
    """Return a session whose catalog is the metastore.

    Raises:
        OperationalError: Spark runs in this process without it.
    """
    place = "hive.metastore.uris" if settings.metastore.startswith("thrift:") else "javax.jdo.option.ConnectionURL"
    options = {IMPLEMENTATION: "hive", f"spark.hadoop.{place}": settings.metastore}
    spark = start_session(settings, role=Role.TASK, options=options)
    if spark.conf.get(IMPLEMENTATION) != "hive":
        raise OperationalError("Spark runs in this process without the metastore", hint="run `headrace maintain`")
    return spark


class Registration:
    """Adds the tables that a metastore lacks, and drops those that are gone, in the schemas that Headrace has created there."""

    def __init__(self, spark: SparkSession, context: Context) -> None:
        self._spark = spark
        self._root = spark_path(context.tables.uri)
        self._mark = f"Headrace, {context.tables.uri}"
        self._wanted = entries(context)
        self._refused: list[str] = []

    def synchronize(self) -> list[str]:
        """Return what the metastore has refused. A table that it refuses does not keep it from taking others."""
        for schema in self._wanted:
            self._run(f"CREATE SCHEMA IF NOT EXISTS {quote(schema)} COMMENT {string_sql(self._mark)}")
        for schema in [row[0] for row in self._spark.sql("SHOW SCHEMAS").collect()]:
            if self._comment_of(schema) == self._mark:
                self._synchronize(schema, self._wanted.get(schema, {}))
            elif schema in self._wanted:
                self._refused.append(f"the schema {schema} is not of this warehouse")
        return self._refused

    def _synchronize(self, schema: str, wanted: dict[str, Entry]) -> None:
        """Add and drop the tables of one schema. Those whose files are not below the warehouse are of others, and stay."""
        present = self._present(schema)
        folders = {plain_path(entry.location) for entry in wanted.values()}
        for name, entry in list(present.items()):
            is_outdated = name in wanted and not is_same(entry, wanted[name])
            if self._is_own(entry) and (is_outdated or plain_path(entry.location) not in folders):
                self._run(f"DROP TABLE {quote(schema)}.{quote(name)}")
                del present[name]
            elif is_outdated:
                self._refused.append(f"{schema}.{name} is a table of others, {entry.location}")
        for name in sorted(wanted.keys() - present.keys()):
            location, comment = string_sql(wanted[name].location), string_sql(wanted[name].comment)
            self._run(f"CREATE TABLE {quote(schema)}.{quote(name)} USING delta COMMENT {comment} LOCATION {location}")
        if schema not in self._wanted and not present:
            self._run(f"DROP SCHEMA {quote(schema)}")

    def _run(self, statement: str) -> None:
        from pyspark.errors import PySparkException

        try:
            self._spark.sql(statement)
        except PySparkException as error:
            self._refused.append(first_line(error))

    def _comment_of(self, schema: str) -> str:
        described = dict(tuple(row) for row in self._spark.sql(f"DESCRIBE SCHEMA {quote(schema)}").collect())
        return str(described.get("Comment", ""))

    def _present(self, schema: str) -> dict[str, Entry]:
        """Return the tables of a schema."""
        rows = self._spark.sql(f"SHOW TABLE EXTENDED IN {quote(schema)} LIKE '*'").collect()
        stored = {row["tableName"]: row["information"] for row in rows if not row["isTemporary"]}
        return {name: Entry(field_of(text, "Location"), field_of(text, "Comment")) for name, text in stored.items()}

    def _is_own(self, entry: Entry) -> bool:
        return plain_path(entry.location).startswith(f"{plain_path(self._root)}/")


def entries(context: Context) -> dict[str, dict[str, Entry]]:
    """Return by database the tables to register, and those of their tags. Trees, and names with other characters, are not."""
    wanted: dict[str, dict[str, Entry]] = defaultdict(dict)
    root, targets = context.tables.uri, jobs_of_targets(context)
    for database in context.catalog.databases.all():
        for table in context.catalog.tables.all(database.name):
            if table.is_virtual or table.external is not None or table.kind is TableKind.TREE:
                continue
            if not (NAME.fullmatch(database.name) and NAME.fullmatch(table.name)):
                logger.warning("%s.%s is not registered: a metastore has no such names", database.name, table.name)
                continue
            comment = " ".join(described(context, table, targets.get(table.id, [])).split())[:MAX_COMMENT]
            wanted[database.name][table.name] = Entry(spark_path(rows_uri(root, table)), comment)
            if table.kind is TableKind.SUPER:
                tags = Entry(spark_path(tags_uri(root, table)), f"tags of {table.name}")
                wanted[database.name].setdefault(f"{table.name}{TAGS}", tags)
    return wanted


def jobs_of_targets(context: Context) -> dict[TableId, list[JobDefinition]]:
    """Return the jobs that write to each table. Of a stream in parts, only the first is among them."""
    jobs: dict[TableId, list[JobDefinition]] = defaultdict(list)
    for record in context.catalog.jobs.all():
        job = record.definition
        if job.target is not None and record.desired is not DesiredState.DROPPED and not part_number(job.id):
            jobs[job.target].append(job)
    return jobs


def described(context: Context, table: Table, jobs: list[JobDefinition]) -> str:
    """Return the comment of a table: its own; the jobs of which it has results, with their owners; and what its columns are of."""
    parts = [table.comment] if table.comment else []
    for job in sorted(jobs, key=str):
        owner = f", owner {job.owner}" if job.owner else ""
        parts.append(f"results of {job.kind} {job}{owner}")
        parts += column_sources(job_lineage(context, job) or Lineage())
    return "; ".join(parts)


def column_sources(lineage: Lineage) -> Iterator[str]:
    for one in lineage.columns:
        inputs = sorted({f"{column.database}.{column.table}.{column.column}" for column in one.inputs})
        if inputs:
            yield f"{one.target.column}: {', '.join(inputs)}"


def field_of(information: str, name: str) -> str:
    """Return a line of what Spark shows of a table; an empty text if it is not there."""
    match = re.search(FIELD.format(name), information, re.MULTILINE)
    return match[1] if match else ""


def is_same(entry: Entry, other: Entry) -> bool:
    return entry.comment == other.comment and plain_path(entry.location) == plain_path(other.location)


def plain_path(location: str) -> str:
    """Return a location in one form: Hive writes `file:/path`."""
    return re.sub(r"^file:/+", "/", unquote(location)).rstrip("/")
