"""User code on an object store: the artifact store, and code at an `s3:` URI."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.code.artifacts import ArtifactStore
from headrace.code.sources import locate_uri
from headrace.egress import EgressPolicy
from headrace.errors import IntegrityError, LimitError, ProgrammingError, StorageError
from headrace.model.functions import Artifact
from headrace.settings import Settings, load
from tests.support.object_store import Server

CODE = b"class Double: pass\n"


def write(server: Server, uri: str, content: bytes) -> None:
    with server.file_system().open_output_stream(uri.removeprefix("s3://")) as file:
        file.write(content)


def test_artifacts_are_stored_copied_and_removed(settings: Settings, object_store: Server) -> None:
    store = ArtifactStore.of(settings)
    used, unused = store.put("used.py", CODE), store.put("unused.py", b"")
    assert store.put("used.py", CODE) == used
    assert store.local_path(used).read_bytes() == CODE
    assert store.collect({used.sha256}) == []
    assert store.collect({used.sha256}, grace_s=-60) == [unused.sha256]
    stored = [path.partition("/tables/")[2] for path in object_store.objects(settings.tables_uri)]
    assert stored == [f".artifacts/{used.sha256}/used.py"]


def test_stored_content_that_was_changed_or_lost_is_noticed(settings: Settings, object_store: Server) -> None:
    store = ArtifactStore.of(settings)
    artifact = store.put("double.py", CODE)
    write(object_store, f"{store.uri}/{artifact.sha256}/double.py", b"import os\n")
    with pytest.raises(IntegrityError, match=r"double.py .* was changed in the artifact store"):
        store.local_path(artifact)
    with pytest.raises(IntegrityError, match="is missing in the artifact store"):
        store.read(Artifact("0" * 64, "double.py", 1))


def test_code_is_read_from_prefixes_that_are_allowed(bucket: str, object_store: Server, tmp_path: Path) -> None:
    settings = load(home=tmp_path / "home", egress=f"{bucket}/udf", code_max_bytes=50)
    for name in ("udf/double.py", "udfs/double.py"):
        write(object_store, f"{bucket}/{name}", CODE)
    write(object_store, f"{bucket}/udf/large.py", b"#" * 51)
    source = locate_uri(f"{bucket}/udf/double.py", "udf", EgressPolicy(settings, lambda: False))
    assert (source.name, source.read()) == ("double.py", CODE)
    for uri in (f"{bucket}/udfs/double.py", f"{bucket}/udf/../udfs/double.py", "s3://other/udf/double.py"):
        with pytest.raises(ProgrammingError):
            locate_uri(uri, "udf", EgressPolicy(settings, lambda: False))
    with pytest.raises(StorageError, match=r"udf/missing.py cannot be read"):
        locate_uri(f"{bucket}/udf/missing.py", "udf", EgressPolicy(settings, lambda: False)).read()
    with pytest.raises(LimitError, match="has more than 50 bytes"):
        locate_uri(f"{bucket}/udf/large.py", "udf", EgressPolicy(settings, lambda: False)).read()
