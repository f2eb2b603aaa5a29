"""DuckDB as it is used everywhere here: in memory, over tables that it is handed, with no way out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import duckdb

CONFINED: Final = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "preserve_insertion_order": "true",
    "lock_configuration": "true",
}


def open_database(**settings: str) -> duckdb.DuckDBPyConnection:
    """Open an empty database that cannot read or write files, reach the network, see Python variables or be reconfigured."""
    import duckdb

    return duckdb.connect(config={**settings, **CONFINED})
