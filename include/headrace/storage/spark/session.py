"""The Spark session: one configuration for every driver, whether started here or by spark-submit."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.errors import OperationalError
from headrace.model.spark_options import MEANING, Role, parse_spark_options
from headrace.settings import Settings
from headrace.storage.object_store import ObjectStore
from headrace.storage.spark.gateway import keep_classes, launch_jvm
from headrace.storage.spark.jars import cache_directory, spark_home, spark_jars
from headrace.storage.spark.java import check_java, host_variables
from headrace.storage.spark.python_calls import define_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOGGING = """status = error
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""
DEFAULTS: Final = {
    # A worker would keep all that an executor writes, which may run for months.
    "spark.executor.logs.rolling.strategy": "size",
    "spark.executor.logs.rolling.maxRetainedFiles": "3",
    # The default of 50 partitions for a table's own snapshot costs more than the snapshot.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Maintenance keeps versions for slow readers, longer than the property of a table says.
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
    # The default of 32 MiB is also the least memory of each broadcast table, such as the tags of a few subtables.
    "spark.buffer.pageSize": "4m",
    # Each alias of a column doubles the constraints that Spark infers from a condition on it.
    "spark.sql.constraintPropagation.enabled": "false",
    # PySpark would send the place of each of its calls to the JVM, for messages that name our own code.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # The limit of results is HEADRACE_QUERY_BYTES. They pass through the JVM partition by partition.
    "spark.driver.maxResultSize": "0",
    # Jobs of users' queries have a pool of their own.
    "spark.scheduler.mode": "FAIR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Options that users may change."""
LATE_COMPILATION: Final = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
"""Ten times the defaults: a task mostly ends before optimizing the code of its start pays. Loops over rows reach these soon."""
AUTHENTICATION: Final = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
"""Options of a cluster with a secret."""


def class_archive(*, s3: bool = False) -> Path:
    """Return the class archive that halves a driver's start time; valid for one Java, one class path and one state of its jars."""
    own, added = sorted((spark_home() / "jars").glob("*.jar")), spark_jars(s3=s3)
    class_path = digest(check_java(), str(spark_home()), *map(str, added))
    return cache_directory() / f"classes-{class_path}-{jar_stamp([*own, *added])}.jsa"


def outdated_archives(archive: Path) -> list[Path]:
    """Return the archives of the same class path whose jars have been replaced."""
    class_path, _, _ = archive.stem.rpartition("-")
    return [other for other in archive.parent.glob(f"{class_path}-*.jsa") if other != archive]


def jar_stamp(jars: Sequence[Path]) -> str:
    """Digest what the JVM compares before it uses an archive: the size of each jar, and when it was modified, in seconds."""
    statuses = [jar.stat() for jar in jars]
    return digest(*(f"{status.st_size} {int(status.st_mtime)}" for status in statuses))


def digest(*parts: str) -> str:
    """Return a short hash that names a file for exactly these inputs."""
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:12]


def java_options(archive: Path | None = None, *, s3: bool = False) -> str:
    """Return options of a driver's JVM. With `archive` it writes the class archive at exit, else it uses an existing one."""
    logging = cache_directory() / "log4j2.properties"
    if not logging.exists():
        logging.parent.mkdir(parents=True, exist_ok=True)
        logging.write_text(LOGGING)
    options = [f"-Dlog4j2.configurationFile=file:{logging}", "-XX:-UsePerfData"]
    if archive is not None:
        options.append(f"-XX:ArchiveClassesAtExit={archive}")
    elif class_archive(s3=s3).exists():
        options.append(f"-XX:SharedArchiveFile={class_archive(s3=s3)}")
    return " ".join(options)


def launch_conf(settings: Settings, role: Role = Role.EMBEDDED, archive: Path | None = None) -> dict[str, str]:
    """Return configuration that must be set before the JVM starts: on the command line of spark-submit."""
    s3 = settings.is_on_object_store
    jars = [str(jar) for jar in spark_jars(s3=s3)]
    options = [java_options(archive, s3=s3), *(LATE_COMPILATION if role is Role.TASK else ()), settings.driver_java_options]
    conf = {
        "spark.driver.memory": driver_memory(settings, role),
        "spark.driver.extraJavaOptions": " ".join(options).rstrip(),
        "spark.driver.extraClassPath": os.pathsep.join(jars),
    }
    if not settings.spark_master.startswith("local"):
        conf |= {"spark.jars": ",".join(jars)} | executor_conf(settings, role)
    return parse_spark_options(settings.spark_options) | conf


def driver_memory(settings: Settings, role: Role) -> str:
    """Return the heap size of a driver."""
    return (settings.task_driver_memory if role is Role.TASK else "") or settings.driver_memory


def executor_conf(settings: Settings, role: Role) -> dict[str, str]:
    is_snode = role is Role.SNODE
    conf = {
        "spark.cores.max": str(settings.snode_cores if is_snode else settings.task_cores),
        "spark.executor.memory": settings.snode_executor_memory if is_snode else settings.task_executor_memory,
    }
    return conf | ({"spark.executor.cores": str(settings.executor_cores)} if settings.executor_cores else {})


def session_conf(settings: Settings) -> dict[str, str]:
    """Return configuration of the session. It includes secrets, so it is never part of a command line."""
    own = MEANING | {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # Files that land may have times of nanoseconds, for which Spark has no type.
        "spark.sql.legacy.parquet.nanosAsLong": "true",
        "spark.sql.warehouse.dir": str(settings.home_path / "spark-warehouse"),
    }
    storage = ObjectStore.of(settings).spark_conf() if settings.is_on_object_store else {}
    secret = settings.spark_secret.reveal()
    authentication = AUTHENTICATION | {"spark.authenticate.secret": secret} if secret else {}
    return DEFAULTS | parse_spark_options(settings.spark_options) | own | storage | authentication


def start_session(
    settings: Settings, *, role: Role = Role.EMBEDDED, archive: Path | None = None, options: Mapping[str, str] | None = None
) -> SparkSession:
    """Return the process's Spark session; start it if there is none. Users' options go before `options`.

    Raises:
        ConfigurationError: Java or the jars are missing; says what to install.
        OperationalError: Spark did not start.
    """
    check_java()
    at_launch = launch_conf(settings, role, archive)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["SPARK_HOME"] = str(spark_home())
    os.environ.update(host_variables(settings.spark_master))
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("headrace").master(settings.spark_master)
    for name, value in (dict(options or {}) | session_conf(settings) | at_launch).items():
        builder = builder.config(name, value)
    try:
        launch_jvm(at_launch | {"spark.master": settings.spark_master})
        session = builder.getOrCreate()
        keep_classes(session.sparkContext._jvm)
    except Exception as error:
        raise OperationalError(
            f"Spark did not start: {error}", hint="`headrace doctor` checks Java, memory and the jars"
        ) from error
    session.sparkContext.setLogLevel("ERROR")
    define_in(session)
    return session
