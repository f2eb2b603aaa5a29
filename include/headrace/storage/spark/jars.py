"""The jars of Delta, and of Hadoop's connector to S3: resolved by Spark's Ivy into a cache, then put on the class path by name.

Resolving takes seconds at every start, and a class path that changes between starts invalidates the class archive.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from headrace.errors import ConfigurationError
from headrace.storage.spark.java import check_java, host_variables

DELTA = "io.delta:delta-spark_4.2_2.13:4.4.0"
# Dependencies of Delta that Spark's distribution contains. Without these exclusions 33 modules are fetched instead of 7.
IN_SPARK = (
    "org.apache.hadoop",
    "com.fasterxml.jackson.core",
    "com.fasterxml.jackson.datatype",
    "com.fasterxml.jackson.module",
    "org.apache.parquet",
    "org.slf4j",
    "org.apache.logging.log4j",
    "com.github.luben",
    "org.apache.commons",
    "io.airlift",
    "org.roaringbitmap",
    "org.xerial.snappy",
    "com.google.code.findbugs",
    "javax.annotation",
    "org.locationtech.jts",
)
# A single resolver: the default settings search ~/.m2 first, where a pom without its jar makes the download fail.
IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""
RESOLVE_SECONDS = 300


@dataclass(frozen=True, slots=True)
class JarSet:
    """Maven packages, the groups or modules among their dependencies that are left out, and a file beside this module.

    The file has the SHA-256 of each jar, as `sha256sum` prints it, since a repository must not decide what drivers run. Sets
    that only tests use have none.
    """

    packages: str
    excluded: tuple[str, ...]
    hash_file: str = ""

    @property
    def hashes(self) -> dict[str, str]:
        """The SHA-256 of each jar by its name, in hexadecimal digits."""
        lines = Path(__file__).with_name(self.hash_file).read_text().splitlines()
        return {name: sha256 for sha256, name in map(str.split, lines)}

    @property
    def key(self) -> str:
        """A hash that names the folder of the jars."""
        return hashlib.sha256(f"{self.packages}{self.excluded}".encode()).hexdigest()[:12]


DELTA_JARS = JarSet(DELTA, IN_SPARK, "delta_jars.sha256")
# The connector of the Hadoop version in Spark. It asks for a bundle of all clients of AWS (600 MB), of which it needs three.
HADOOP_VERSION = "3.5.0"
AWS_VERSION = "2.35.4"
S3_JARS = JarSet(
    ",".join(
        (
            f"org.apache.hadoop:hadoop-aws:{HADOOP_VERSION}",
            *(f"software.amazon.awssdk:{name}:{AWS_VERSION}" for name in ("s3", "s3-transfer-manager", "sts")),
        )
    ),
    ("software.amazon.awssdk:bundle", "commons-codec", "commons-logging", "io.netty", "org.apache.httpcomponents", "org.slf4j"),
    "s3_jars.sha256",
)


def cache_directory() -> Path:
    """Return the directory shared by all homes of a user."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "headrace"


def spark_home() -> Path:
    """Return the directory of the Spark distribution in the pyspark package, without importing it."""
    from importlib.util import find_spec

    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConfigurationError("the package pyspark is not installed", hint="run `make setup`")
    return Path(spec.origin).parent


def spark_jars(*, s3: bool) -> list[Path]:
    """Return the jars that Spark needs beside its own, with those for S3 or without, in a stable order."""
    return [*delta_jars(), *(cached_jars(S3_JARS) if s3 else [])]


def delta_jars() -> list[Path]:
    return cached_jars(DELTA_JARS)


def cached_jars(jars: JarSet) -> list[Path]:
    """Return jars in a stable order; fetch them if the cache has none."""
    folder = cache_directory() / f"jars-{jars.key}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):
            if not folder.exists():
                fetch(jars, folder)
    return sorted(folder.glob("*.jar"))


def fetch(jars: JarSet, folder: Path) -> None:
    """Resolve the jars by Spark's Ivy beside `folder`, then move them into place atomically.

    Raises:
        ConfigurationError: A jar is missing, or is not the one that Headrace was tested with.
    """
    check_java()
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        resolved = resolve(jars, Path(scratch))
        if not resolved:
            raise ConfigurationError(
                "Spark's Ivy fetched no jar", hint="check the network and the settings of the Maven repository"
            )
        if jars.hash_file:
            check_hashes(jars, resolved)
        complete = Path(scratch) / "complete"
        complete.mkdir()
        for jar in resolved:
            shutil.move(jar, complete / jar.name)
        complete.rename(folder)


def check_hashes(jars: JarSet, resolved: Sequence[Path]) -> None:
    """Raise `ConfigurationError` unless these are the jars of a set, with the content that they have to have."""
    expected = jars.hashes
    actual = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in resolved}
    others = sorted(name for name in actual.keys() | expected.keys() if actual.get(name) != expected.get(name))
    if others:
        raise ConfigurationError(
            f"these jars are not those that Headrace was tested with: {', '.join(f'{name} {actual.get(name)}' for name in others)}",
            hint="fetch them from Maven's central repository; if they came from there, do not use them, and report it",
        )


def resolve(jars: JarSet, scratch: Path) -> list[Path]:
    """Run spark-submit on an empty program, so that it resolves the packages."""
    (scratch / "settings.xml").write_text(IVY_SETTINGS)
    (scratch / "nothing.py").write_text("")
    conf = {
        "spark.jars.ivy": str(scratch / "ivy"),
        "spark.jars.ivySettings": str(scratch / "settings.xml"),
        "spark.jars.excludes": ",".join(name if ":" in name else f"{name}:*" for name in jars.excluded),
    }
    home = spark_home()
    command = [str(home / "bin" / "spark-submit"), "--packages", jars.packages]
    command += [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    environment = os.environ | host_variables("local") | {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [*command, str(scratch / "nothing.py")],
        capture_output=True,
        text=True,
        env=environment,
        timeout=RESOLVE_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-12:])
        raise ConfigurationError(f"Spark's jars could not be fetched:\n{last}", hint="check the network, then run it again")
    return sorted((scratch / "ivy" / "jars").glob("*.jar"))
