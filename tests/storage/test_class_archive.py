"""The class archive of Spark's JVM: used while the jars are those it was made of, renewed when they were replaced."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.settings import load
from headrace.storage.spark.jars import delta_jars, spark_home
from headrace.storage.spark.java import find_java
from headrace.storage.spark.session import class_archive, jar_stamp, launch_conf, outdated_archives

LAUNCHER = "org.apache.spark.launcher.Main"


def launch(jar: Path, option: str) -> str:
    """Run a main class of Spark's that only prints how it is called; return what the JVM warns of."""
    command = [str(find_java()), option, "-cp", str(jar), LAUNCHER]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "".join(line for line in (done.stdout + done.stderr).splitlines() if "[warning]" in line)


def touch(jar: Path) -> None:
    later = int(jar.stat().st_mtime) + 60
    os.utime(jar, (later, later))


def test_the_stamp_changes_if_the_jvm_refuses_the_archive_and_only_then(tmp_path: Path) -> None:
    [installed] = (spark_home() / "jars").glob("spark-launcher_*.jar")
    jar, archive = tmp_path / "launcher.jar", tmp_path / "classes.jsa"
    shutil.copy2(installed, jar)
    launch(jar, f"-XX:ArchiveClassesAtExit={archive}")
    stamp = jar_stamp([jar])
    assert archive.exists()

    jar.unlink()
    shutil.copy2(installed, jar)
    assert (launch(jar, f"-XX:SharedArchiveFile={archive}"), jar_stamp([jar])) == ("", stamp)
    touch(jar)
    assert "shared" in launch(jar, f"-XX:SharedArchiveFile={archive}")
    assert jar_stamp([jar]) != stamp


def test_setup_renews_the_archive_when_a_jar_was_reinstalled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [folder] = {jar.parent for jar in delta_jars()}
    shutil.copytree(folder, tmp_path / "headrace" / folder.name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = class_archive()
    first.touch()  # what an earlier setup has left
    touch(delta_jars()[0])
    second = class_archive()
    assert second != first
    assert "SharedArchiveFile" not in launch_conf(load(home=tmp_path / "home"))["spark.driver.extraJavaOptions"]
    assert outdated_archives(second) == [first]

    command = [sys.executable, "-m", "headrace.cli.main", "setup"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list(first.parent.glob("*.jsa")) == [second]
    assert str(second) in launch_conf(load(home=tmp_path / "home"))["spark.driver.extraJavaOptions"]
