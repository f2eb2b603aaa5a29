"""The catalog: tables, jobs, the ledger of backfills, leases and events.

To add a repository: a file here with its table (columns, constraints), the conversion of rows, and a class over `Store`;
an attribute in `Catalog`; once there is a release, a migration with the next number in `migrations/versions`.
"""

from headrace.catalog.catalog import Catalog

__all__ = ["Catalog"]
