"""What every part of a process is handed: catalog, tables, Spark session, clock and settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.egress import EgressPolicy, serves_only_this_machine
from headrace.model.access import administrator
from headrace.model.connections import OpenConnections
from headrace.model.run_reports import RunReports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.catalog import Catalog
    from headrace.code.triggers import FireResult, TabletRows
    from headrace.model.access import Permissions
    from headrace.model.clock import Clock
    from headrace.model.trees import DeviceSeries
    from headrace.model.triggers import RegisteredTrigger
    from headrace.settings import Settings
    from headrace.storage import Tables
    from headrace.storage.delta.group_commit import GroupCommit
    from headrace.storage.delta.writer import Writer
    from headrace.storage.set_aside import SetAside


def egress_policy(settings: Settings, catalog: Catalog) -> EgressPolicy:
    """Return what definitions of users may reach."""
    return EgressPolicy(settings, lambda: serves_only_this_machine(settings) and not catalog.access.has_users())


def allow_all(series: Sequence[DeviceSeries]) -> None:
    """Allow everything."""


@dataclass(frozen=True, slots=True)
class Context:
    """The environment of a process, or of one of its streams.

    Attributes:
        open_tables: Returns the tables, opened on first use.
        spark: Returns the session, started on first use.
        epoch: The epoch of the lease under which this driver may commit; 0 in embedded mode, in which a lock excludes others.
        set_aside: The rows that reads of the source leave out, if the environment is that of one stream.
        authorize_points: Raises an error unless its user may write points of series, and create those that are missing.
        call_in_snode: Has an snode call a stateful trigger; returns None if none can. Is None in an snode, which calls them itself.
        drop_in_snode: Has snodes call `on_drop` of a stateful trigger's instance; returns whether one has it. Is None in an snode.
        user: Who makes changes; empty for the process itself.
        permissions: Returns what that user may do now.
        group_commit: Commits rows of several writers together. Set for those who come in through the doors of an snode.
        connections: Those that the doors of this process have open.
        reports: Takes reports of the runs of jobs.
    """

    catalog: Catalog
    open_tables: Callable[[], Tables]
    spark: Callable[[], SparkSession]
    clock: Clock
    settings: Settings
    epoch: int = 0
    set_aside: SetAside | None = None
    authorize_points: Callable[[Sequence[DeviceSeries]], None] = allow_all
    call_in_snode: Callable[[Context, RegisteredTrigger, TabletRows], FireResult | None] | None = None
    drop_in_snode: Callable[[Context, RegisteredTrigger], bool] | None = None
    user: str = ""
    permissions: Callable[[], Permissions] = administrator
    group_commit: GroupCommit | None = None
    connections: OpenConnections = field(default_factory=OpenConnections)
    reports: RunReports = field(default_factory=RunReports)

    @property
    def egress(self) -> EgressPolicy:
        """What definitions of users may reach."""
        return egress_policy(self.settings, self.catalog)

    @property
    def row_writer(self) -> GroupCommit | Writer:
        """What writes rows of supertables and plain tables: together with other writers, if there may be some."""
        return self.group_commit or self.tables.writer

    @property
    def tables(self) -> Tables:
        """The Delta tables."""
        return self.open_tables()

    @property
    def state_uri(self) -> str:
        """The folder that holds one folder of state for each stream."""
        return f"{self.settings.tables_uri}/.streams"
