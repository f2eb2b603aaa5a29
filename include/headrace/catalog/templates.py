"""Device templates of the catalog, the paths that they are set to, and the devices that use them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Connection, delete, func, select, update

from headrace.catalog.pinned_reads import PinnedReads
from headrace.catalog.rows.trees import DEVICE_SCHEMAS, DEVICE_TEMPLATES, DEVICES, TEMPLATE_PATHS
from headrace.catalog.rules import hold_databases
from headrace.catalog.schema_log import record_statements
from headrace.catalog.store import Repository, Store, insert, is_among
from headrace.catalog.trees import add_columns, save_schema
from headrace.errors import Error, ExistsError, IntegrityError, NotFoundError
from headrace.model.conversion import from_json, from_row, to_json, to_row
from headrace.model.paths import join_path, split_path
from headrace.model.schema_log import SchemaStatement
from headrace.model.spelling import did_you_mean
from headrace.model.tables import Column
from headrace.model.tree_status import TreeStatus
from headrace.model.trees import DeviceTemplate, NewSeries, Timeseries


class Templates(Repository):
    """Device templates by name. What is given as `statements` is recorded in the log of schema changes."""

    def __init__(self, store: Store, pins: PinnedReads) -> None:
        """Create a repository; `pins` remembers which templates cover devices."""
        super().__init__(store)
        self._pins = pins

    def all(self) -> list[DeviceTemplate]:
        """Return every template in the order of their creation."""
        return self._all(DeviceTemplate, select(DEVICE_TEMPLATES).order_by(DEVICE_TEMPLATES.c.number))

    def get(self, name: str) -> DeviceTemplate:
        """Return a template; `NotFoundError` if there is none of that name."""
        with self._store.read() as connection:
            return get_template(connection, name)

    def create(self, template: DeviceTemplate, statements: Sequence[SchemaStatement] = ()) -> None:
        """Record a template; `ExistsError` if the name is taken."""
        with self._store.write() as connection:
            last = connection.scalar(select(func.max(DEVICE_TEMPLATES.c.number))) or 0
            new = insert(connection, DEVICE_TEMPLATES).values(to_row(template) | {"number": last + 1})
            name = DEVICE_TEMPLATES.c.name
            if connection.scalar(new.on_conflict_do_nothing().returning(name)) is None:
                raise duplicate_name(template.name)
            record_statements(self._store, connection, statements)

    def drop(self, name: str, statements: Sequence[SchemaStatement] = ()) -> None:
        """Remove a template; `IntegrityError` if it is set to a path."""
        with self._store.write() as connection:
            get_template(connection, name)
            if connection.scalar(select(TEMPLATE_PATHS.c.path).where(TEMPLATE_PATHS.c.template == name).limit(1)) is not None:
                raise still_set(name)
            connection.execute(delete(DEVICE_TEMPLATES).where(DEVICE_TEMPLATES.c.name == name))
            record_statements(self._store, connection, statements)

    def paths(self) -> dict[str, str]:
        """Return the name of the template that is set to each path, by path in alphabetical order."""
        return {row["path"]: row["template"] for row in self._rows(select(TEMPLATE_PATHS).order_by(TEMPLATE_PATHS.c.path))}

    def covering(self, paths: Collection[str]) -> dict[str, tuple[str, DeviceTemplate]]:
        """Return the template that is set to each path or to one above it, with the path that it is set to."""
        return self._pins.get_each("template", paths, self._covering)

    def _covering(self, paths: Collection[str]) -> dict[str, tuple[str, DeviceTemplate]]:
        with self._store.read() as connection:
            if connection.scalar(select(TEMPLATE_PATHS.c.path).limit(1)) is None:
                return {}
            above = {path: prefixes(path) for path in paths}
            wanted = {prefix for own in above.values() for prefix in own}
            query = select(TEMPLATE_PATHS).where(is_among(connection, TEMPLATE_PATHS.c.path, list(wanted)))
            names = {row["path"]: row["template"] for row in connection.execute(query).mappings()}
            templates = {name: get_template(connection, name) for name in set(names.values())}
        return {path: (at, templates[names[at]]) for path, own in above.items() for at in own if at in names}

    def set(self, name: str, database: str, path: str, statements: Sequence[SchemaStatement] = ()) -> None:
        """Set a template to a path; `ExistsError` if one is set to this path, above or below it."""
        with self._store.write() as connection:
            hold_databases(connection, database)
            get_template(connection, name)
            other = nested_path(path, connection.scalars(select(TEMPLATE_PATHS.c.path).order_by(TEMPLATE_PATHS.c.path)).all())
            if other is not None:
                raise already_set(other)
            connection.execute(insert(connection, TEMPLATE_PATHS).values({"path": path, "database": database, "template": name}))
            record_statements(self._store, connection, statements)

    def unset(self, path: str, statements: Sequence[SchemaStatement] = ()) -> None:
        """Remove the template from a path."""
        with self._store.write() as connection:
            connection.execute(delete(TEMPLATE_PATHS).where(TEMPLATE_PATHS.c.path == path))
            record_statements(self._store, connection, statements)

    def used_databases(self, name: str) -> list[str]:
        """Return the databases with devices that use a template, by name."""
        query = select(DEVICES.c.database).where(DEVICES.c.template == name).distinct().order_by(DEVICES.c.database)
        with self._store.read() as connection:
            return list(connection.scalars(query))

    def extend(
        self,
        name: str,
        series: Sequence[NewSeries],
        columns: Mapping[str, Mapping[str, Column]],
        statements: Sequence[SchemaStatement] = (),
    ) -> None:
        """Add measurements to a template and to all devices that use it, in one transaction.

        Args:
            name: The template.
            series: What it lacks.
            columns: For each database with devices that use it: the column of each measurement.
            statements: What is recorded in the log of schema changes.
        """
        with self._store.write() as connection:
            hold_databases(connection, *columns)
            extended = (*get_template(connection, name).series, *series)
            changed = update(DEVICE_TEMPLATES).where(DEVICE_TEMPLATES.c.name == name)
            connection.execute(changed.values(series=[to_json(one) for one in extended]))
            for database, by_measurement in columns.items():
                add_columns(connection, database, list(by_measurement.values()))
                extend_devices(connection, database, name, [one.stored(by_measurement[one.measurement].name) for one in series])
            record_statements(self._store, connection, statements)


def get_template(connection: Connection, name: str) -> DeviceTemplate:
    """Return a template; `NotFoundError` if there is none of that name."""
    row = connection.execute(select(DEVICE_TEMPLATES).where(DEVICE_TEMPLATES.c.name == name)).mappings().first()
    if row is None:
        names = connection.scalars(select(DEVICE_TEMPLATES.c.name)).all()
        hint = did_you_mean(name, names, "SHOW DEVICE TEMPLATES lists what there is")
        raise NotFoundError(f"Template {name} does not exist", hint=hint).with_status(TreeStatus.METADATA_ERROR)
    return from_row(DeviceTemplate, row)


def prefixes(path: str) -> list[str]:
    """Return a path and those above it."""
    nodes = split_path(path)
    return [join_path(nodes[:length]) for length in range(1, len(nodes) + 1)]


def nested_path(path: str, others: Sequence[str]) -> str | None:
    """Return the first of some paths that is the path, above or below it."""
    return next((other for other in others if path == other or other.startswith(path + ".") or path.startswith(other + ".")), None)


def extend_devices(connection: Connection, database: str, template: str, series: Sequence[Timeseries]) -> None:
    """Add series to the devices of a database that use a template. They share few schemas, so this takes few statements."""
    users = (DEVICES.c.database == database, DEVICES.c.template == template)
    for schema in connection.scalars(select(DEVICES.c.schema_id).where(*users).distinct()).all():
        stored = connection.scalar(select(DEVICE_SCHEMAS.c.series).where(DEVICE_SCHEMAS.c.id == schema))
        extended = save_schema(connection, (*from_json(tuple[Timeseries, ...], stored or []), *series))
        connection.execute(update(DEVICES).where(*users, DEVICES.c.schema_id == schema).values(schema_id=extended))


def duplicate_name(name: str) -> Error:
    """Return the error for a template whose name is taken."""
    error = ExistsError(f"Duplicated template name: {name}", hint="use another name, or ALTER DEVICE TEMPLATE")
    return error.with_status(TreeStatus.METADATA_ERROR)


def still_set(name: str) -> Error:
    """Return the error for dropping a template that is set to a path."""
    error = IntegrityError(
        f"Template [{name}] has been set on MTree, cannot be dropped now.",
        hint=f"UNSET DEVICE TEMPLATE {name} FROM each path that SHOW PATHS SET DEVICE TEMPLATE {name} lists",
    )
    return error.with_status(TreeStatus.METADATA_ERROR)


def already_set(path: str) -> Error:
    """Return the error for setting a template to a path that has one, at it, above or below."""
    error = ExistsError(
        f"Template already exists on {path}", hint="a path has one device template; UNSET it first, or use another path"
    )
    return error.with_status(TreeStatus.METADATA_ERROR)
