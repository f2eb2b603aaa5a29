"""The check of Airflow's version, which the plugin and the DAG file make."""

from __future__ import annotations

from airflow.sdk.exceptions import AirflowException

from airflow import __version__ as airflow_version
from headrace.runtime.airflow_versions import BELOW, MINIMUM, is_supported


class UnsupportedAirflowError(AirflowException):
    """This version of Airflow has not been tried with this version of Headrace."""


def check_airflow(version: str = airflow_version) -> None:
    """Raise unless a version of Airflow is supported.

    Raises:
        UnsupportedAirflowError: It is older or newer than what Headrace has been tested with.
    """
    if not is_supported(version):
        raise UnsupportedAirflowError(
            f"Headrace runs in Airflow {MINIMUM} to {BELOW} (exclusive), but this is {version}; install one of these with"
            f" `pip install 'apache-airflow>={MINIMUM},<{BELOW}'`, or a release of Headrace for this one"
        )
