"""The JVM of a driver that this process starts: no secret is on its command line, and its remarks do not reach the user."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any, Final

REMARKS: Final = (
    b"WARNING: Using incubator modules:",
    b"Setting default log level to ",
    b"To adjust logging level use ",
    b"Warning: Java versions > Java 11 can only operate in restricted mode",
)
"""Lines that Java, Spark and its libraries print to standard error although nothing is wrong, and that no option turns off."""

LOOKED_UP: Final = ("PythonUtils", "PythonSQLUtils", "org.apache.spark.sql.functions")
"""Names of classes that PySpark looks up for nearly every call."""

ERROR_SECONDS: Final = 1.0
"""How long to wait for the error of a JVM that does not start."""


def launch_jvm(conf: Mapping[str, str]) -> None:
    """Start the JVM with the configuration that it needs at its start, unless there is one, or spark-submit has started it.

    PySpark alone would pass the whole configuration of the session on the command line, which all users of the machine can read.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    source, target = os.pipe()
    forwarding = threading.Thread(target=forward, args=[source], name="stderr of the JVM", daemon=True)
    forwarding.start()
    gateway = None
    try:
        options = SparkConf(loadDefaults=False).setAll(list(conf.items()))
        gateway = launch_gateway(options, {"stderr": target})  # type: ignore[no-untyped-call]
    finally:
        os.close(target)
        if gateway is None:
            forwarding.join(ERROR_SECONDS)
    SparkContext._ensure_initialized(gateway=gateway)


def forward(source: int) -> None:
    """Write what the JVM prints to standard error, except remarks."""
    with open(source, "rb") as lines:
        for line in lines:
            if not line.startswith(REMARKS):
                os.write(2, line)


def keep_classes(jvm: Any) -> None:
    """Keep the classes that PySpark looks up all the time, for each of which the JVM would search all jars."""
    for name in LOOKED_UP:
        if name not in vars(jvm):
            setattr(jvm, name, getattr(jvm, name))
