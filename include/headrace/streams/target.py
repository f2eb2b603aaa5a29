"""The table that takes a stream's results: subtables and tags on first use, rows as its columns want them, fenced commits."""

from __future__ import annotations

import pyarrow as pa

from headrace.streams.context import Context
from headrace.streams.define import StreamPlan


class Target:
    """One stream's door to its target table; groups that have been seen are remembered."""

    def __init__(self, context: Context, plan: StreamPlan) -> None:
        self.context = context
        self.plan = plan

    def rows(self, windows: pa.Table) -> pa.Table:
        """Finished windows (`p*` and the query's output columns) as physical rows of the target.

        Subtables and tag values of new groups are created. Groups whose name belongs to another table are left out, with an
        event in the catalog.
        """
        raise NotImplementedError

    def commit(self, upserts: pa.Table | None, deletes: pa.Table | None, version: int) -> bool:
        """Write rows and withdraw keys (`tbname`, timestamp[, key]) as the stream's results up to a source version.

        Returns False when the target already has them.

        Raises:
            FencedError: another driver has taken the stream over.
        """
        raise NotImplementedError

    def fill(self, upserts: pa.Table) -> None:
        """Write rows of a backfill: upserts under the same fence, which leave the stream's version as it is."""
        raise NotImplementedError

    def fence(self) -> None:
        """Make commits of drivers with an older epoch fail from now on."""
        raise NotImplementedError

    def version(self) -> int | None:
        """The source version up to which the target has the stream's results; None when it has none."""
        raise NotImplementedError
