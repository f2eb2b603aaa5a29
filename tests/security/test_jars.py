"""Jars that setup fetches are used only if their content is the one that the repository of Headrace names."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.errors import ConfigurationError
from headrace.storage.spark import jars
from headrace.storage.spark.jars import DELTA_JARS, S3_JARS, JarSet, check_hashes, delta_jars, fetch


def test_the_jars_of_this_machine_are_the_pinned_ones() -> None:
    check_hashes(DELTA_JARS, delta_jars())


@pytest.mark.parametrize("jar_set", [DELTA_JARS, S3_JARS])
def test_every_package_has_a_hash(jar_set: JarSet) -> None:
    assert all(re.fullmatch("[0-9a-f]{64}", value) for value in jar_set.hashes.values())
    for package in jar_set.packages.split(","):
        assert f"{package.replace(':', '_', 1).replace(':', '-')}.jar" in jar_set.hashes


def change_content(folder: Path) -> None:
    name = next(iter(DELTA_JARS.hashes))
    (folder / name).write_bytes((folder / name).read_bytes() + b"x")


def add_jar(folder: Path) -> None:
    (folder / "org.example_other-1.0.jar").write_bytes(b"PK")


def remove_jar(folder: Path) -> None:
    (folder / next(iter(DELTA_JARS.hashes))).unlink()


@pytest.mark.parametrize("change", [change_content, add_jar, remove_jar])
def test_other_jars_are_never_put_into_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    """The repository is replaced by a folder: asking a real one for wrong jars is not possible."""

    def resolve(_: JarSet, scratch: Path) -> list[Path]:
        folder = scratch / "ivy"
        folder.mkdir()
        for jar in delta_jars():
            shutil.copy(jar, folder)
        change(folder)
        return sorted(folder.glob("*.jar"))

    monkeypatch.setattr(jars, "resolve", resolve)
    with pytest.raises(ConfigurationError, match="not those that Headrace was tested with"):
        fetch(DELTA_JARS, tmp_path / "jars")
    assert not (tmp_path / "jars").exists()


def test_a_wrong_jar_is_named_with_its_hash(tmp_path: Path) -> None:
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"changed")
    with pytest.raises(ConfigurationError, match=f"a.jar {hashlib.sha256(b'changed').hexdigest()}"):
        check_hashes(DELTA_JARS, [*delta_jars(), jar])
