"""Roles of Spark drivers, and the options that users pass through to them."""

from __future__ import annotations

import re
import shlex
from enum import Enum
from typing import Final


class Role(Enum):
    """What a driver is for; decides on its share of memory and of a cluster."""

    SNODE = "snode"
    TASK = "task"
    EMBEDDED = "embedded"


OWN_SETTINGS: Final = {
    "spark.master": "HEADRACE_SPARK_MASTER",
    "spark.driver.extraJavaOptions": "HEADRACE_DRIVER_JAVA_OPTIONS",
    "spark.driver.memory": "HEADRACE_DRIVER_MEMORY",
    "spark.cores.max": "HEADRACE_SNODE_CORES and HEADRACE_TASK_CORES",
    "spark.executor.memory": "HEADRACE_SNODE_EXECUTOR_MEMORY and HEADRACE_TASK_EXECUTOR_MEMORY",
    "spark.executor.cores": "HEADRACE_EXECUTOR_CORES",
    "spark.authenticate": "HEADRACE_SPARK_SECRET",
    "spark.authenticate.secret": "HEADRACE_SPARK_SECRET",
    "spark.network.crypto.enabled": "HEADRACE_SPARK_SECRET",
    "spark.executorEnv.HEADRACE_S3_ACCESS_KEY_ID": "HEADRACE_S3_ACCESS_KEY_ID",
    "spark.executorEnv.HEADRACE_S3_ENDPOINT": "HEADRACE_S3_ENDPOINT",
    "spark.executorEnv.HEADRACE_S3_REGION": "HEADRACE_S3_REGION",
    "spark.executorEnv.HEADRACE_S3_SECRET_ACCESS_KEY": "HEADRACE_S3_SECRET_ACCESS_KEY",
    "spark.hadoop.fs.s3a.access.key": "HEADRACE_S3_ACCESS_KEY_ID",
    "spark.hadoop.fs.s3a.aws.credentials.provider": "HEADRACE_S3_ACCESS_KEY_ID",
    "spark.hadoop.fs.s3a.connection.ssl.enabled": "HEADRACE_S3_ENDPOINT",
    "spark.hadoop.fs.s3a.endpoint": "HEADRACE_S3_ENDPOINT",
    "spark.hadoop.fs.s3a.endpoint.region": "HEADRACE_S3_REGION",
    "spark.hadoop.fs.s3a.path.style.access": "HEADRACE_S3_ENDPOINT",
    "spark.hadoop.fs.s3a.secret.key": "HEADRACE_S3_SECRET_ACCESS_KEY",
    "spark.sql.shuffle.partitions": "HEADRACE_SHUFFLE_PARTITIONS",
}
"""Options that have a setting."""
MEANING: Final = {
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # Texts in statements may contain ${env:NAME}, for which Spark would read the environment.
    "spark.sql.variable.substitute": "false",
}
"""What the SQL text of plans means: Spark's defaults, which its own configuration and environment may change, but for the last."""
RESERVED: Final = frozenset(
    {
        *MEANING,
        "spark.driver.extraClassPath",
        "spark.jars",
        "spark.sql.catalog.spark_catalog",
        "spark.sql.execution.arrow.pyspark.enabled",
        "spark.sql.extensions",
        "spark.sql.legacy.parquet.nanosAsLong",
        "spark.sql.parquet.outputTimestampType",
        "spark.sql.session.timeZone",
        "spark.sql.warehouse.dir",
        "spark.submit.deployMode",
    }
)
"""Options on which results, or the start of a driver, depend."""
RESERVED_PREFIXES: Final = ("spark.sql.ansi.", "spark.sql.catalog.", "spark.sql.legacy.", "spark.sql.parser.")
SECRET: Final = re.compile(r"(?i)secret|password|token|access\.?key")


def parse_spark_options(text: str) -> dict[str, str]:
    """Parse `key=value` options that are separated by white space; quote a value that has some.

    Raise `ValueError` for an option that is malformed, repeated, or one that Headrace sets itself.
    """
    options: dict[str, str] = {}
    for part in shlex.split(text):
        name, equals, value = part.partition("=")
        if not equals or not name.startswith("spark."):
            raise ValueError(f"{mask_option(part)} is not an option of the form spark.name=value")
        if name in options:
            raise ValueError(f"{name} is set twice")
        check_option(name)
        options[name] = value
    return options


def check_option(name: str) -> None:
    """Raise `ValueError` if Headrace sets this option itself."""
    if name in OWN_SETTINGS:
        raise ValueError(f"{name} has a setting of its own: {OWN_SETTINGS[name]}")
    if name in RESERVED or name.startswith(RESERVED_PREFIXES):
        raise ValueError(f"{name} is set by Headrace and cannot be changed")


def check_metastore(address: str) -> None:
    """Raise `ValueError` for an address that is none of a Hive metastore."""
    if address and not address.startswith(("thrift://", "jdbc:")):
        raise ValueError("it begins with neither thrift:// nor jdbc:")


def mask_option(option: str) -> str:
    """Hide the value of an option whose name says that it is secret."""
    name, equals, _ = option.partition("=")
    return f"{name}=***" if equals and SECRET.search(name) else option


def mask_options(text: str) -> str:
    """Hide the secret values of options."""
    return " ".join(shlex.quote(mask_option(part)) for part in shlex.split(text))


def check_java_options(text: str) -> None:
    """Raise `ValueError` for options of the JVM that have a setting of their own."""
    if "-Xmx" in text:
        raise ValueError("set the heap size with HEADRACE_DRIVER_MEMORY instead of -Xmx")
