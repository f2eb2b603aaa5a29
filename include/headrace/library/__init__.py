"""The function library: IoTDB's library of data quality, profiling and analysis, written with the public API `headrace.udf` alone.

Each module has a family of functions, and a table `FUNCTIONS` of them by the class names of IoTDB's library, which
`CREATE FUNCTION … AS 'org.apache.iotdb.library.…'` names.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headrace.udf import UDAF, UDTF

IOTDB_LIBRARY: Final = "org.apache.iotdb.library."
OWN_LIBRARY: Final = "headrace.library."
MODULES: Final = {
    "anomaly": "anomaly",
    "dlearn": "learning",
    "dmatch": "matching",
    "dprofile": "profiling",
    "dquality": "quality",
    "drepair": "repair",
    "frequency": "frequency",
    "match": "matching",
    "series": "discovery",
}
"""The modules of this package by the packages of IoTDB's library."""


def find_class(class_name: str) -> type[UDTF] | type[UDAF] | None:
    """Return a function by the name that `CREATE FUNCTION` gives its class, or None.

    That is a class name of IoTDB's library, such as `org.apache.iotdb.library.anomaly.UDTFIQR`, or a class of this package, such
    as `headrace.library.anomaly.InterquartileRange`.
    """
    package, _, name = class_name.rpartition(".")
    if package.startswith(IOTDB_LIBRARY):
        return functions_of(MODULES.get(package.removeprefix(IOTDB_LIBRARY))).get(name)
    module = package.removeprefix(OWN_LIBRARY)
    if not package.startswith(OWN_LIBRARY) or module not in MODULES.values():
        return None
    return next((function for function in functions_of(module).values() if function.__name__ == name), None)


def functions_of(module: str | None) -> dict[str, type[UDTF] | type[UDAF]]:
    """Return the functions of a module of this package by their class names in IoTDB's library; none without a module."""
    functions: dict[str, type[UDTF] | type[UDAF]] = {} if module is None else import_module(f"{OWN_LIBRARY}{module}").FUNCTIONS
    return functions
