"""`headrace doctor` and `headrace setup`: check the machine, and prepare a fast start of Spark."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import psutil

from headrace.cli.console import err, out
from headrace.cli.doctor_airflow import SYSTEM_CHECKS
from headrace.errors import ConfigurationError, Error
from headrace.jobs.registry import kinds
from headrace.model.addresses import DOOR_NAMES
from headrace.runtime.listening import check_endpoint, endpoint_context, is_loopback
from headrace.runtime.tls import server_context
from headrace.settings import Settings, load
from headrace.storage.spark.jars import cache_directory, spark_jars
from headrace.storage.spark.java import check_java
from headrace.storage.spark.session import class_archive, outdated_archives

GIB: Final = 1024**3
# Enough for a driver's heap, its Python process and Airflow's components.
MIN_MEMORY_BYTES: Final = 4 * GIB
MIN_DISK_BYTES: Final = 2 * GIB
MAX_SHOWN: Final = 5
# Loads the classes that every driver uses: a session, Delta's reader and writer, a shuffle, Arrow in both directions.
TRAINING_SCRIPT: Final = """
import pathlib, shutil, sys, tempfile
import pyarrow as pa
from headrace.settings import load
from headrace.storage.spark.session import start_session
home = pathlib.Path(tempfile.mkdtemp())
spark = start_session(load(home=home, spark_master="local[2]", driver_memory="1g"), archive=pathlib.Path(sys.argv[1]))
rows = spark.createDataFrame(pa.table({"k": [0, 1] * 50, "v": [1.0] * 100}))
rows.write.format("delta").save(str(home / "t"))
spark.read.format("delta").load(str(home / "t")).groupBy("k").sum("v").toArrow()
spark.stop()
shutil.rmtree(home)
"""


def check_memory(_: Settings) -> str:
    """Return the machine's memory; `ConfigurationError` if it is less than `MIN_MEMORY_BYTES`."""
    total = psutil.virtual_memory().total
    if total < MIN_MEMORY_BYTES:
        raise ConfigurationError(
            f"the machine has {total / GIB:.1f} GiB of memory", hint=f"use one with at least {MIN_MEMORY_BYTES / GIB:.0f} GiB"
        )
    return f"{total / GIB:.1f} GiB"


def check_home(settings: Settings) -> str:
    """Create the home if needed, and return its path and free space.

    Raises:
        ConfigurationError: It is not writable, or has less than `MIN_DISK_BYTES` free.
    """
    home = settings.create_home()
    free = shutil.disk_usage(home).free
    if not os.access(home, os.W_OK) or free < MIN_DISK_BYTES:
        raise ConfigurationError(
            f"home {home} is not writable or too full: {free / GIB:.1f} GiB free",
            hint=f"set HEADRACE_HOME to a writable folder with at least {MIN_DISK_BYTES / GIB:.0f} GiB free",
        )
    return f"{home}, {free / GIB:.0f} GiB free"


def check_catalog(settings: Settings) -> str:
    from headrace.catalog import Catalog

    with Catalog.open(settings.catalog) as catalog:
        counts = Counter(record.definition.kind for record in catalog.jobs.all())
        return ", ".join([f"{len(catalog.databases.all())} databases", *(f"{counts[kind.name]} {kind.plural}" for kind in kinds())])


def check_warehouse(settings: Settings) -> str:
    """Return where the tables are.

    Raises:
        ConfigurationError: The object store cannot be used, or does not keep writers from overwriting each other's commits.
    """
    if settings.is_on_object_store:
        from headrace.storage.object_store import check_exclusive_commits, register

        register(settings.tables_uri, settings)
        check_exclusive_commits(settings.tables_uri)
    return settings.tables_uri


def check_folders(settings: Settings) -> str:
    """Return that the catalog has all tables of which there are files; raise `ConfigurationError` with the folders of others."""
    from headrace.catalog import Catalog
    from headrace.runtime.table_removal import orphaned_folders

    with Catalog.open(settings.catalog) as catalog:
        orphans = orphaned_folders(catalog, settings.tables_uri)
    if orphans:
        raise ConfigurationError(
            f"the catalog lacks the tables of {len(orphans)} folders in {settings.tables_uri}: {', '.join(orphans[:MAX_SHOWN])}",
            hint="if a DROP was interrupted, repeat it, which removes them; if not, restore the catalog that has them",
        )
    return "all are of tables in the catalog"


def check_class_archive(settings: Settings) -> str:
    exists = class_archive(s3=settings.is_on_object_store).exists()
    return "exists" if exists else "missing; run `headrace setup` for faster starts of Spark"


def check_code_hosts(settings: Settings) -> str:
    """Start a process for user code, and return how it is confined."""
    from headrace.code.host_process import CodeHost, HostLimits
    from headrace.code.sandbox import WITHOUT

    host = CodeHost("", "", replace(HostLimits.of(settings, "", ""), log_folder=""))
    try:
        missing = host.missing_guards()
    finally:
        host.close()
    return f"limited; {'; '.join(WITHOUT[guard] for guard in missing)}" if missing else f"confined by {' and '.join(WITHOUT)}"


def check_listening(settings: Settings) -> str:
    """Return who reaches the servers of an snode, and whether they encrypt.

    Raises:
        ConfigurationError: One would be open to other machines in clear unasked, or the certificate cannot be used.
    """
    from headrace.doors.options import door_options

    check_endpoint(settings)
    has_certificate = server_context(settings.tls_certificate, settings.tls_key) is not None
    encrypts = {"HTTP endpoint": (settings.http_host, endpoint_context(settings) is not None)}
    for options in filter(None, (door_options(settings, name) for name in DOOR_NAMES)):
        encrypts["doors"] = (options.host, options.uses_tls)
    states = (
        f"{name} {'of this machine' if is_loopback(host) else 'open to others'} {'with TLS' if has_tls else 'in clear'}"
        for name, (host, has_tls) in encrypts.items()
    )
    expiry = f"; the certificate is valid until {expiry_of(settings.tls_certificate):%Y-%m-%d}" if has_certificate else ""
    return ", ".join(states) + expiry


def expiry_of(path: str) -> datetime:
    """Return until when a certificate is valid; raise `ConfigurationError` if that is over."""
    from cryptography.x509 import load_pem_x509_certificate

    expiry = load_pem_x509_certificate(Path(path).read_bytes()).not_valid_after_utc
    if expiry < datetime.now(UTC):
        raise ConfigurationError(f"certificate {path} has expired at {expiry:%Y-%m-%d}", hint="renew it; snodes read it again")
    return expiry


CHECKS: Final[dict[str, Callable[[Settings], str]]] = {
    "Java": lambda _: check_java(),
    "memory": check_memory,
    "home": check_home,
    "catalog": check_catalog,
    "warehouse": check_warehouse,
    "folders of tables": check_folders,
    "Spark's jars": lambda settings: f"{len(spark_jars(s3=settings.is_on_object_store))} jars in {cache_directory()}",
    "class archive": check_class_archive,
    "user code": check_code_hosts,
    "servers": check_listening,
    **SYSTEM_CHECKS,
}


def run_checks(home: Path | None) -> int:
    """Run and print all checks; return the exit code, 1 if any failed."""
    settings = load(home=home)
    failed = 0
    for name, check in CHECKS.items():
        try:
            out.print(f"[green]ok[/]     {name}: {check(settings)}", highlight=False)
        except Error as error:
            failed = 1
            out.print(f"[red]failed[/] {name}: {error.message}; {error.hint}", highlight=False)
    return failed


def prepare_spark() -> None:
    """Fetch the jars if they are missing, and write the class archive if there is none for the jars as they are."""
    s3 = load().is_on_object_store
    jars = spark_jars(s3=s3)
    archive = class_archive(s3=s3)
    if not archive.exists():
        with err.status("preparing Spark's start (once, about half a minute)"):
            write_class_archive(archive)
    out.print(f"{len(jars)} jars and the class archive are in {cache_directory()}", highlight=False)


def write_class_archive(archive: Path) -> None:
    """Run a small driver that writes an archive of the classes it loads. A failure is only reported: it slows starts, no more."""
    scratch = archive.with_name(f"{archive.name}.{os.getpid()}")
    process = subprocess.run([sys.executable, "-c", TRAINING_SCRIPT, str(scratch)], capture_output=True, text=True, check=False)
    if process.returncode == 0 and scratch.exists():
        scratch.rename(archive)
        for outdated in outdated_archives(archive):
            outdated.unlink(missing_ok=True)
    else:
        err.print(f"class archive could not be written: {process.stderr.strip().splitlines()[-1:]}", style="yellow", markup=False)
