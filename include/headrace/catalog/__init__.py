"""The catalog: tables, jobs, the ledger of backfills, leases and events.

To add a repository: its table (columns, constraints) and the conversion of rows in `rows`; a file here with a `Repository`; an
attribute in `Catalog`; once there is a release, a migration with the next number in `migrations/versions`.
"""

from headrace.catalog.catalog import Catalog

__all__ = ["Catalog"]
