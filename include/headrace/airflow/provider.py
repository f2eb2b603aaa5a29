"""What Airflow asks of an installed provider package, through the entry point `apache_airflow_provider`."""

from __future__ import annotations

from typing import Any, Final

FIELDS: Final[dict[str, Any]] = {
    "hidden-fields": [],
    "relabeling": {"host": "Host (empty: a home that this machine can read)", "login": "User", "schema": "Database"},
    "placeholders": {"port": "32010"},
}
EXTRAS: Final[dict[str, Any]] = {
    "dialect": {"label": "Dialect", "schema": {"type": ["string", "null"], "enum": ["tdengine", "iotdb", None], "default": None}},
    "tls": {"label": "TLS", "schema": {"type": ["boolean", "null"], "default": True}},
    "home": {"label": "Home", "schema": {"type": ["string", "null"]}},
}
NAME: Final = "Headrace"


def get_provider_info() -> dict[str, Any]:
    """Return the description of the package, in the form of Airflow's `provider.yaml`."""
    return {
        "package-name": "headrace",
        "name": NAME,
        "description": "Stream processing declared in SQL, run by Spark on Delta tables.",
        "integrations": [{"integration-name": NAME, "tags": ["service"]}],
        "connection-types": [
            {
                "hook-class-name": "headrace.airflow.hooks.HeadraceHook",
                "hook-name": NAME,
                "connection-type": "headrace",
                "ui-field-behaviour": FIELDS,
                "conn-fields": EXTRAS,
            }
        ],
        **{
            kind: [{"integration-name": NAME, "python-modules": [f"headrace.airflow.{kind}"]}]
            for kind in ("hooks", "operators", "sensors", "triggers")
        },
    }
