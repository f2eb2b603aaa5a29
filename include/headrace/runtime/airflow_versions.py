"""The versions of Airflow with which Headrace has been tested."""

from __future__ import annotations

from typing import Final

from packaging.version import Version

MINIMUM: Final = "3.3.0"
BELOW: Final = "3.4"


def is_supported(version: str) -> bool:
    """Return whether a version of Airflow is supported."""
    return Version(MINIMUM) <= Version(Version(version).base_version) < Version(BELOW)
