"""Devices of the catalog, many thousands at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, delete, func, or_, select, update

from headrace.catalog.alterations import with_columns
from headrace.catalog.pinned_reads import PinnedReads
from headrace.catalog.revisions import RevisionKind, revision_of
from headrace.catalog.rows.tables import DATABASES, SUBTABLES, TABLES
from headrace.catalog.rows.trees import DEVICE_SCHEMAS, DEVICES, TTLS, from_row, schema_id, to_row
from headrace.catalog.rules import hold_databases
from headrace.catalog.schema_log import record_statements
from headrace.catalog.store import Repository, Store, insert, is_among
from headrace.catalog.subtables import add_subtables
from headrace.catalog.tables import find_table
from headrace.catalog.triggers import SeenRevision
from headrace.model.conversion import from_json, to_json
from headrace.model.paths import ROOT, PathPattern, join_path, split_path
from headrace.model.schema_log import SchemaStatement
from headrace.model.tables import Column
from headrace.model.trees import TREE_TABLE, Device, Timeseries

DeviceLog = Callable[[Mapping[str, Device], Sequence[Device]], Sequence[SchemaStatement]]
"""Returns the statements that change devices, given those that there were, by path, and all that are changed."""
TRIGGER_REVISION: Final = revision_of(RevisionKind.TRIGGERS).scalar_subquery()


class Trees(Repository):
    """Devices by database and path. A device is also a subtable of its database's table."""

    def __init__(self, store: Store, pins: PinnedReads, seen: SeenRevision) -> None:
        """Create a repository that notes the revision of triggers in `seen`; `pins` remembers devices."""
        super().__init__(store)
        self._pins = pins
        self._seen = seen

    def find(self, database: str, paths: Collection[str]) -> dict[str, Device]:
        """Return those of the paths that are devices."""
        return self._pins.get_each(("device", database), paths, partial(self._find, database))

    def _find(self, database: str, paths: Collection[str]) -> dict[str, Device]:
        with self._store.read() as connection:
            query = select(DEVICES, TRIGGER_REVISION.label("revision"))
            query = query.where(DEVICES.c.database == database, is_among(connection, DEVICES.c.path, list(paths)))
            rows = list(connection.execute(query).mappings())
            self._seen.note(rows[0]["revision"] if rows else None)
            return {device.path: device for device in with_schemas(connection, rows)}

    def matching(self, database: str, patterns: Sequence[PathPattern]) -> list[Device]:
        """Return the devices whose path may match one of the patterns or begin one, in the order of their creation.

        The catalog compares the nodes before the first wildcard; the caller compares the rest.
        """
        query = select(DEVICES).where(DEVICES.c.database == database).order_by(DEVICES.c.number)
        prefixes = {join_path(pattern.literal_prefix) for pattern in patterns}
        if all(len(prefix) > len(database) for prefix in prefixes):
            query = query.where(or_(*(begins(prefix) for prefix in prefixes)))
        with self._store.read() as connection:
            return read_devices(connection, query)

    def page(self, database: str, after: int, limit: int) -> list[Device]:
        """Return the devices of a database whose number follows one, in the order of their creation, at most `limit`."""
        query = select(DEVICES).where(DEVICES.c.database == database, DEVICES.c.number > after)
        with self._store.read() as connection:
            return read_devices(connection, query.order_by(DEVICES.c.number).limit(limit))

    def all(self, database: str) -> list[Device]:
        """Return every device of a database in the order of their creation."""
        with self._store.read() as connection:
            return read_devices(connection, select(DEVICES).where(DEVICES.c.database == database).order_by(DEVICES.c.number))

    def change(
        self,
        database: str,
        paths: Collection[str],
        change: Callable[[dict[str, Device]], Iterable[Device]],
        columns: Sequence[Column],
        log: DeviceLog | None = None,
    ) -> list[Device]:
        """Create devices or change them, in one transaction.

        Args:
            database: The database, which stays locked until the transaction ends.
            paths: Devices to pass to `change`; those that do not exist are left out.
            change: Returns the devices to store. A device without series and template is removed; an exception rolls the
                transaction back.
            columns: Columns that the database's table has gained.
            log: Returns what is recorded in the log of schema changes.
        """
        with self._store.write() as connection:
            hold_databases(connection, database)
            query = select(DEVICES).where(DEVICES.c.database == database, is_among(connection, DEVICES.c.path, list(paths)))
            present = {device.path: device for device in read_devices(connection, query)}
            changed = list(change(dict(present)))
            add_columns(connection, database, columns)
            save(connection, database, present, [device for device in changed if exists(device)])
            remove(connection, database, [device.path for device in changed if not exists(device)])
            if log is not None:
                record_statements(self._store, connection, log(present, changed))
        return changed

    def ttls(self) -> dict[str, int]:
        """Return the times to live by path or pattern, in milliseconds."""
        return dict(self._pins.get("ttls", self._ttls))

    def _ttls(self) -> dict[str, int]:
        return {row["path"]: row["ttl_ms"] for row in self._rows(select(TTLS).order_by(TTLS.c.path))}

    def set_ttl(self, paths: Sequence[str], ttl_ms: int | None, statements: Sequence[SchemaStatement] = ()) -> None:
        """Set the time to live of paths; None removes it. The `statements` are recorded in the log of schema changes."""
        with self._store.write() as connection:
            connection.execute(delete(TTLS).where(TTLS.c.path.in_(paths)))
            if ttl_ms is not None:
                connection.execute(insert(connection, TTLS), [{"path": path, "ttl_ms": ttl_ms} for path in paths])
            record_statements(self._store, connection, statements)

    def databases(self) -> list[str]:
        """Return the names of the databases that are trees."""
        return list(self._pins.get("trees", self._databases))

    def _databases(self) -> list[str]:
        query = select(TABLES.c.database).where(TABLES.c.kind == "tree", TABLES.c.name == TREE_TABLE)
        with self._store.read() as connection:
            return list(connection.scalars(query.order_by(TABLES.c.database)))

    def externals(self) -> list[str]:
        """Return the names of the databases that are external tables."""
        return list(self._pins.get("external trees", self._externals))

    def _externals(self) -> list[str]:
        query = select(TABLES.c.database).where(TABLES.c.kind != "tree", TABLES.c.name == TREE_TABLE)
        query = query.where(TABLES.c.database.startswith(f"{ROOT}.", autoescape=True))
        with self._store.read() as connection:
            return list(connection.scalars(query.order_by(TABLES.c.database)))

    def created(self) -> dict[str, int]:
        """Return when the databases that are trees were created, by name. One that has had the same name has another time."""
        query = select(DATABASES.c.name, DATABASES.c.created).join(TABLES, TABLES.c.database == DATABASES.c.name)
        query = query.where(TABLES.c.kind == "tree", TABLES.c.name == TREE_TABLE).order_by(DATABASES.c.name)
        return {row["name"]: row["created"] for row in self._rows(query)}


def exists(device: Device) -> bool:
    """Return whether a device has series, or a template that may have none yet."""
    return bool(device.series) or device.template is not None


def begins(prefix: str) -> ColumnElement[bool]:
    """Return the condition that a path is a prefix, lies below it, or is above it."""
    # A pattern's prefix may name a series, whose device is one node shorter.
    above = join_path(split_path(prefix)[:-1])
    return or_(DEVICES.c.path == prefix, DEVICES.c.path == above, DEVICES.c.path.startswith(prefix + ".", autoescape=True))


def read_devices(connection: Connection, query: Select[object]) -> list[Device]:
    """Return the devices of a query."""
    return with_schemas(connection, list(connection.execute(query).mappings()))


def with_schemas(connection: Connection, rows: Sequence[RowMapping]) -> list[Device]:
    """Return the devices of rows, with equal schemas read once."""
    ids = sorted({row["schema_id"] for row in rows})
    schema_query = select(DEVICE_SCHEMAS).where(is_among(connection, DEVICE_SCHEMAS.c.id, ids))
    schemas = {row["id"]: from_json(tuple[Timeseries, ...], row["series"]) for row in connection.execute(schema_query).mappings()}
    return [from_row(row, schemas[row["schema_id"]]) for row in rows]


def add_columns(connection: Connection, database: str, columns: Sequence[Column]) -> None:
    """Record new columns of the database's table."""
    if not columns:
        return
    changed = with_columns(find_table(connection, database, TREE_TABLE), columns)
    values = {"columns": [to_json(column) for column in changed.columns]}
    connection.execute(update(TABLES).where(TABLES.c.database == database, TABLES.c.name == TREE_TABLE).values(values))


def save(connection: Connection, database: str, present: dict[str, Device], devices: Sequence[Device]) -> None:
    if not devices:
        return
    ids = {device.path: save_schema(connection, device.series) for device in devices}
    last = connection.scalar(select(func.max(DEVICES.c.number)).where(DEVICES.c.database == database)) or 0
    new = [device for device in devices if device.path not in present]
    rows = [to_row(device, ids[device.path]) | {"number": number} for number, device in enumerate(new, start=last + 1)]
    if rows:
        add_subtables(connection, database, TREE_TABLE, [device.path for device in new])
        connection.execute(insert(connection, DEVICES), rows)
    for device in devices:
        if device.path in present and device != present[device.path]:
            row = to_row(device, ids[device.path])
            connection.execute(update(DEVICES).where(DEVICES.c.database == database, DEVICES.c.path == device.path).values(row))


def save_schema(connection: Connection, series: tuple[Timeseries, ...]) -> str:
    """Return the id of a schema, recording it if it is new."""
    values = [to_json(one) for one in series]
    key = schema_id(values)
    connection.execute(insert(connection, DEVICE_SCHEMAS).values({"id": key, "series": values}).on_conflict_do_nothing())
    return key


def remove(connection: Connection, database: str, paths: Sequence[str]) -> None:
    """Remove devices with their subtables."""
    if paths:
        connection.execute(delete(DEVICES).where(DEVICES.c.database == database, is_among(connection, DEVICES.c.path, paths)))
        connection.execute(delete(SUBTABLES).where(SUBTABLES.c.database == database, is_among(connection, SUBTABLES.c.name, paths)))
