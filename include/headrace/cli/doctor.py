"""What the machine must have, checked one by one; and the preparation of Spark's start."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psutil

from headrace.cli.console import err, out
from headrace.errors import ConfigurationError, Error
from headrace.settings import Settings, load
from headrace.storage.spark.jars import cache_directory, delta_jars
from headrace.storage.spark.java import check_java
from headrace.storage.spark.session import class_archive, outdated_archives

GIB: Final = 1024**3
# A driver's heap, Python, and Airflow's components beside it.
NEEDED_MEMORY: Final = 4 * GIB
NEEDED_DISK: Final = 2 * GIB
# Loads what every driver loads: a session, Delta's reader and writer, a shuffle, Arrow both ways.
TRAINING: Final = """
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
    total = psutil.virtual_memory().total
    if total < NEEDED_MEMORY:
        raise ConfigurationError(f"{total / GIB:.1f} GiB of memory", hint=f"at least {NEEDED_MEMORY / GIB:.0f} GiB are needed")
    return f"{total / GIB:.1f} GiB"


def check_home(settings: Settings) -> str:
    home = settings.home_path
    home.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(home).free
    if not os.access(home, os.W_OK) or free < NEEDED_DISK:
        raise ConfigurationError(
            f"{home}: {free / GIB:.1f} GiB free", hint="HEADRACE_HOME must be writable, with at least 2 GiB free"
        )
    return f"{home}, {free / GIB:.0f} GiB free"


def check_catalog(settings: Settings) -> str:
    from headrace.catalog import Catalog

    with Catalog.open(settings.catalog) as catalog:
        return f"{len(catalog.databases.all())} databases, {len(catalog.jobs.all())} streams"


CHECKS: Final[dict[str, Callable[[Settings], str]]] = {
    "Java": lambda _: check_java(),
    "memory": check_memory,
    "home": check_home,
    "catalog": check_catalog,
    "Delta's jars": lambda _: f"{len(delta_jars())} jars in {cache_directory()}",
    "class archive": lambda _: "there" if class_archive().exists() else "missing; `headrace setup` makes starts of Spark quicker",
}


def run_checks(home: Path | None) -> int:
    """Run and show every check; 1 where one failed."""
    settings = load() if home is None else load(home=home)
    failed = 0
    for name, check in CHECKS.items():
        try:
            out.print(f"[green]ok[/]    {name}: {check(settings)}", highlight=False)
        except Error as error:
            failed = 1
            out.print(f"[red]wrong[/] {name}: {error.message}; {error.hint}", highlight=False)
    return failed


def prepare() -> None:
    """Fetch the jars if they are missing, and write the class archive if there is none for the jars as they are."""
    jars = delta_jars()
    archive = class_archive()
    if not archive.exists():
        with err.status("preparing Spark's start (once, about half a minute)"):
            train(archive)
    out.print(f"{len(jars)} jars and the class archive are in {cache_directory()}", highlight=False)


def train(archive: Path) -> None:
    """Let a small driver write the archive of the classes that it loaded. Without one, starts are slower but nothing else."""
    scratch = archive.with_name(f"{archive.name}.{os.getpid()}")
    done = subprocess.run([sys.executable, "-c", TRAINING, str(scratch)], capture_output=True, text=True, check=False)
    if done.returncode == 0 and scratch.exists():
        scratch.rename(archive)
        for outdated in outdated_archives(archive):
            outdated.unlink(missing_ok=True)
    else:
        err.print(f"no class archive: {done.stderr.strip().splitlines()[-1:]}", style="yellow", markup=False)
