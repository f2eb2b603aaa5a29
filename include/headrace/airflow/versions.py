"""The versions of Airflow that Headrace runs in, checked by its plugin and its DAG file."""

from __future__ import annotations

from typing import Final

from airflow.sdk.exceptions import AirflowException
from packaging.version import Version

from airflow import __version__ as airflow_version

MINIMUM: Final = "3.3.0"
BELOW: Final = "3.4"


class UnsupportedAirflowError(AirflowException):
    """This version of Airflow has not been tried with this version of Headrace."""


def check_airflow(version: str = airflow_version) -> None:
    """Raise unless a version of Airflow is supported.

    Raises:
        UnsupportedAirflowError: It is older or newer than what Headrace has been tested with.
    """
    if not Version(MINIMUM) <= Version(Version(version).base_version) < Version(BELOW):
        raise UnsupportedAirflowError(
            f"Headrace runs in Airflow {MINIMUM} to {BELOW} (exclusive), but this is {version}; install one of these with"
            f" `pip install 'apache-airflow>={MINIMUM},<{BELOW}'`, or a release of Headrace for this one"
        )
