"""Stages of statements over trees of devices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.model.progress import Progress, no_progress
from headrace.service.rights import CATALOG, Action, Right, database_securable, table_securable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

    from headrace.compute.iotdb.by_tags import TagPlan
    from headrace.compute.iotdb.into import IntoColumn
    from headrace.compute.iotdb.last import LastPlan
    from headrace.compute.iotdb.scope import TreeScope
    from headrace.compute.iotdb.select import TreePlan
    from headrace.model.functions import RegisteredFunction
    from headrace.model.tables import Database
    from headrace.model.tree_queries import TreeQuery
    from headrace.model.trees import Device, DeviceSeries, DeviceTemplate, NewSeries, TemplateSeries
    from headrace.service.results import Result


@dataclass(frozen=True, slots=True)
class MakeTree:
    """Create a database of the IoTDB language with its table; `ttl_ms` is None for no limit."""

    database: Database
    ttl_ms: int | None = None
    if_not_exists: bool = False

    @property
    def required(self) -> tuple[Right, ...]:
        """The rights that it needs."""
        return (Right(Action.CREATE, database_securable(self.database.name)),)


@dataclass(frozen=True, slots=True)
class MakeSeries:
    """Create series of a device, and the device if it is missing."""

    database: Database
    device: str
    series: tuple[NewSeries, ...]
    aligned: bool = False

    @property
    def required(self) -> tuple[Right, ...]:
        """The rights that it needs."""
        return (Right(Action.ALTER, database_securable(self.database.name)),)


@dataclass(frozen=True, slots=True)
class RemoveSeries:
    """Remove series of devices with their values: measurements by device."""

    database: Database
    series: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def required(self) -> tuple[Right, ...]:
        """The rights that it needs."""
        return (Right(Action.ALTER, database_securable(self.database.name)),)


@dataclass(frozen=True, slots=True)
class MakeTemplate:
    """Create a device template."""

    template: DeviceTemplate

    @property
    def required(self) -> tuple[Right, ...]:
        """The rights that it needs."""
        return (Right(Action.CREATE, CATALOG),)


@dataclass(frozen=True, slots=True)
class RemoveTemplate:
    """Remove a device template that is not set to a path."""

    name: str

    @property
    def required(self) -> tuple[Right, ...]:
        """The rights that it needs."""
        return (Right(Action.DROP, CATALOG),)


@dataclass(frozen=True, slots=True)
class RegisterFunction:
    """Register a function of the library under a name."""

    function: RegisteredFunction

    @property
    def required(self) -> tuple[Right, ...]:
        """The rights that it needs."""
        return (Right(Action.CREATE, CATALOG),)


@dataclass(frozen=True, slots=True)
class RemoveFunction:
    """Remove a registered function."""

    name: str

    @property
    def required(self) -> tuple[Right, ...]:
        """The rights that it needs."""
        return (Right(Action.DROP, CATALOG),)


@dataclass(frozen=True, slots=True)
class ExtendTemplate:
    """Add measurements to a device template and to its devices."""

    name: str
    series: tuple[TemplateSeries, ...]

    @property
    def required(self) -> tuple[Right, ...]:
        """The rights that it needs."""
        return (Right(Action.ALTER, CATALOG),)


@dataclass(frozen=True, slots=True)
class AssignTemplate:
    """Set a device template to a path, or remove it from there if `name` is None."""

    database: Database
    path: str
    name: str | None

    @property
    def required(self) -> tuple[Right, ...]:
        """The rights that it needs."""
        return (Right(Action.ALTER, database_securable(self.database.name)),)


@dataclass(frozen=True, slots=True)
class ActivateDevice:
    """Create a device with the series of the template that is set to its path or above it, unless it exists."""

    database: Database
    device: str
    template: str

    @property
    def required(self) -> tuple[Right, ...]:
        """The rights that it needs."""
        return (Right(Action.ALTER, database_securable(self.database.name)),)


@dataclass(frozen=True, slots=True)
class DeactivateDevices:
    """Remove devices that use a template, with their values."""

    database: Database
    devices: tuple[str, ...]

    @property
    def required(self) -> tuple[Right, ...]:
        """The rights that it needs."""
        return (Right(Action.ALTER, database_securable(self.database.name)),)


@dataclass(frozen=True, slots=True)
class ChangeDevice:
    """Change what is attached to a device's series; `change` makes the new device of the present one."""

    database: Database
    device: str
    change: Callable[[Device], Device]

    @property
    def required(self) -> tuple[Right, ...]:
        """The rights that it needs."""
        return (Right(Action.ALTER, database_securable(self.database.name)),)


@dataclass(frozen=True, slots=True)
class WriteSeries:
    """Write rows of one device in one commit, after creating the series that are missing.

    Attributes:
        device: Its measurements that the rows have values of.
        rows: `time` as stored and a column for each measurement, in the type of its series. There may be none.
        missing: The series that do not exist.
        template: The device template that the device and missing series are created from, if there is one.
        is_new: Whether the device is created from the template.
    """

    device: DeviceSeries
    rows: pa.Table
    missing: tuple[NewSeries, ...] = ()
    template: str | None = None
    is_new: bool = False

    @property
    def required(self) -> tuple[Right, ...]:
        """The rights that it needs."""
        database = database_securable(self.device.database.name)
        alters = (Right(Action.ALTER, CATALOG if self.template else database),) if self.missing else ()
        activates = (Right(Action.ALTER, database),) if self.is_new else ()
        return (*alters, *activates, *((Right(Action.WRITE, database),) if self.rows.num_rows else ()))


@dataclass(frozen=True, slots=True)
class LoadTree:
    """Load files into a tree, all or nothing. Missing series are created once all values are validated.

    Attributes:
        device: The device of all rows; if None, the files name it.
        bytes: Size of all files.
        aligned: Whether devices that are created are aligned.
        format: `csv`, `parquet` or `ndjson`; if None, the files' extensions decide.
    """

    database: Database
    files: tuple[Path, ...]
    device: str | None
    bytes: int
    aligned: bool = False
    format: str | None = None
    progress: Progress = field(default=no_progress, compare=False)

    @property
    def required(self) -> tuple[Right, ...]:
        """The rights that it needs."""
        database = database_securable(self.database.name)
        return (Right(Action.ALTER, database), Right(Action.WRITE, database))


@dataclass(frozen=True, slots=True)
class ClearSeries:
    """Delete values within ranges of ticks, both ends inclusive: columns by device."""

    database: Database
    columns: tuple[tuple[str, tuple[str, ...]], ...]
    ranges: tuple[tuple[int, int], ...] | None

    @property
    def required(self) -> tuple[Right, ...]:
        """The rights that it needs."""
        return (Right(Action.WRITE, database_securable(self.database.name)),)


@dataclass(frozen=True, slots=True)
class ChangeTtl:
    """Set the time to live of a path or pattern; None removes it."""

    database: str
    path: str
    ttl_ms: int | None

    @property
    def required(self) -> tuple[Right, ...]:
        """The rights that it needs."""
        return (Right(Action.ALTER, database_securable(self.database)),)


@dataclass(frozen=True, slots=True)
class FindLast:
    """Find the latest point of each series."""

    plan: LastPlan

    @property
    def required(self) -> tuple[Right, ...]:
        """The rights that it needs."""
        return tuple(Right(Action.READ, database_securable(scan.database.name)) for scan in self.plan.rows.scans)


@dataclass(frozen=True, slots=True)
class ReadPoints:
    """Answer SHOW or COUNT from the catalog and from the times of points, which Spark reads."""

    title: str
    read: Callable[[], Result]

    @property
    def required(self) -> tuple[Right, ...]:
        """The rights that it needs."""
        return (Right(Action.DESCRIBE, CATALOG), Right(Action.READ, CATALOG))


@dataclass(frozen=True, slots=True)
class GroupByTags:
    """Run a query whose rows are groups of series."""

    plan: TagPlan

    @property
    def required(self) -> tuple[Right, ...]:
        """The rights that it needs."""
        return tuple(Right(Action.READ, table_securable(scan.table)) for scan in self.plan.plan.scans)


@dataclass(frozen=True, slots=True)
class WriteInto:
    """Run a query and write its columns to series. `plan` is None if it names no series.

    Attributes:
        targets: Where each column of the result goes, or of ALIGN BY DEVICE each column of each device.
    """

    plan: TreePlan | None
    targets: tuple[IntoColumn, ...]

    @property
    def required(self) -> tuple[Right, ...]:
        """The rights that it needs."""
        reads = () if self.plan is None else tuple(Right(Action.READ, table_securable(scan.table)) for scan in self.plan.plan.scans)
        return (*reads, Right(Action.WRITE, CATALOG))


@dataclass(frozen=True, slots=True)
class VerifyTree:
    """Run a query over trees with Spark and with DuckDB, and compare. `sql` is the query's text."""

    query: TreeQuery
    plan: TreePlan | TagPlan
    scope: TreeScope
    sql: str

    @property
    def required(self) -> tuple[Right, ...]:
        """READ on each table of the query."""
        return tuple(Right(Action.READ, table_securable(scan.table)) for scan in self.plan.plan.scans)


TreeStage = (
    MakeTree
    | MakeSeries
    | RemoveSeries
    | MakeTemplate
    | RemoveTemplate
    | RegisterFunction
    | RemoveFunction
    | ExtendTemplate
    | AssignTemplate
    | ActivateDevice
    | DeactivateDevices
    | ChangeDevice
    | WriteSeries
    | LoadTree
    | ClearSeries
    | ChangeTtl
    | FindLast
    | ReadPoints
    | GroupByTags
    | WriteInto
    | VerifyTree
)
