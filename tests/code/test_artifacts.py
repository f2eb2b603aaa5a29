"""The artifact store: content under its hash, and copies of it on each machine."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from headrace.code.artifacts import GRACE_S, ArtifactStore
from headrace.code.folders import LocalFolder
from headrace.errors import IntegrityError, LimitError, StorageError
from headrace.model.functions import Artifact
from headrace.settings import Settings, load
from tests.support.racing import race

CODE = b"class Double: pass\n"


@pytest.fixture
def store(settings: Settings) -> ArtifactStore:
    return ArtifactStore.of(settings)


def make_old(folder: str | Path) -> None:
    """Date all files of a folder before the time for which unused ones stay."""
    for path in Path(folder).rglob("*"):
        if path.is_file():
            os.utime(path, (path.stat().st_mtime - 2 * GRACE_S,) * 2)


def test_content_is_stored_once_under_its_hash(store: ArtifactStore, settings: Settings) -> None:
    artifact = store.put("double.py", CODE)
    assert store.put("double.py", CODE) == artifact
    assert (artifact.name, artifact.size) == ("double.py", len(CODE))
    files = [path.relative_to(settings.tables_uri).as_posix() for path in Path(settings.tables_uri).rglob("*") if path.is_file()]
    assert files == [f".artifacts/{artifact.sha256}/double.py"]
    assert store.read(artifact) == CODE


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("../../etc/passwd.py", "_.._etc_passwd.py"),
        (".hidden.py", "hidden.py"),
        ("wörter.py", "w_rter.py"),
        ("/", "_"),
        ("", "code"),
    ],
)
def test_names_of_files_are_safe(store: ArtifactStore, name: str, stored: str) -> None:
    artifact = store.put(name, CODE)
    assert artifact.name == stored
    assert store.read(artifact) == CODE


def test_content_that_is_too_large_is_not_stored(tmp_path: Path) -> None:
    store = ArtifactStore.of(load(home=tmp_path / "home", code_max_bytes=10))
    store.put("small.py", b"0123456789")
    with pytest.raises(LimitError, match=r"large.py has 11 bytes, the maximum is 10"):
        store.put("large.py", b"0123456789x")
    assert len(os.listdir(store.uri)) == 1


def test_a_copy_is_made_once_and_outlives_the_store(store: ArtifactStore) -> None:
    artifact = store.put("double.py", CODE)
    path = store.local_path(artifact)
    assert path.read_bytes() == CODE
    assert path.is_relative_to(store.cache)
    LocalFolder(Path(store.uri)).delete(f"{artifact.sha256}/double.py")
    assert pickle.loads(pickle.dumps(store)).local_path(artifact) == path


def test_a_copy_that_was_changed_is_replaced(store: ArtifactStore) -> None:
    artifact = store.put("double.py", CODE)
    path = store.local_path(artifact)
    path.write_bytes(b"import os\n")
    assert store.local_path(artifact).read_bytes() == CODE


def test_stored_content_that_was_changed_or_lost_is_noticed(store: ArtifactStore) -> None:
    artifact = store.put("double.py", CODE)
    (Path(store.uri) / artifact.sha256 / "double.py").write_bytes(b"import os\n")
    for load_code in (store.read, store.local_path):
        with pytest.raises(IntegrityError, match=r"the code double.py \(.{12}\) was changed in the artifact store"):
            load_code(artifact)
    with pytest.raises(IntegrityError, match="is missing in the artifact store"):
        store.read(Artifact("0" * 64, "double.py", 1))


def test_without_a_home_copies_are_in_a_private_folder_for_temporary_files(
    store: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    artifact = store.put("double.py", CODE)
    # A file is in the place of the folder, so that no folder can be created, not even by root.
    (tmp_path / "file").write_text("")
    elsewhere = ArtifactStore(store.uri, tmp_path / "file" / "cache", store.max_bytes)
    path = elsewhere.local_path(artifact)
    assert path.read_bytes() == CODE
    folder = path.parents[1]
    assert folder.parent == tmp_path
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    with pytest.raises(StorageError, match="is open to other users"):
        elsewhere.local_path(artifact)


def test_what_nothing_refers_to_is_removed_after_a_day(store: ArtifactStore) -> None:
    used, unused, dropped, new = (store.put(f"{name}.py", name.encode()) for name in ("used", "unused", "dropped", "new"))
    for artifact in (used, unused, dropped):
        store.local_path(artifact)
    make_old(store.uri)
    make_old(store.cache)
    store.put("new.py", b"new")
    store.renew(dropped)
    assert store.collect({used.sha256}) == [unused.sha256]
    assert sorted(os.listdir(store.uri)) == sorted([used.sha256, dropped.sha256, new.sha256])
    assert os.listdir(store.cache) == [used.sha256]
    assert store.collect({used.sha256}) == []


def test_a_file_of_a_writer_that_died_is_removed_too(store: ArtifactStore) -> None:
    artifact = store.put("double.py", CODE)
    draft = Path(store.uri) / artifact.sha256 / ".draft-1"
    draft.write_bytes(b"half")
    make_old(store.uri)
    assert store.collect(()) == [artifact.sha256]
    assert os.listdir(store.uri) == []


def test_renewing_what_is_missing_changes_nothing(store: ArtifactStore) -> None:
    store.renew(Artifact("0" * 64, "double.py", 1))
    assert not Path(store.uri).exists()


def store_and_copy(store: ArtifactStore, rounds: int) -> list[bytes]:
    """Store the same content again and again, and return what copies of it have."""
    return [store.local_path(store.put("double.py", CODE)).read_bytes() for _ in range(rounds)]


def test_processes_store_and_copy_the_same_content_at_once(store: ArtifactStore) -> None:
    copies = race(store_and_copy, [(store, 40)] * 4)
    assert [set(contents) for contents in copies] == [{CODE}] * 4
    (folder,) = os.listdir(store.uri)
    assert os.listdir(Path(store.uri) / folder) == ["double.py"]
