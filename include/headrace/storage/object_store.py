"""Access to an object store: one URI and one set of credentials, in the words of delta-rs, Arrow and Hadoop.

Credentials that are not set are found by each library in the environment, or come from the role of the machine.
"""

from __future__ import annotations

import functools
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs
from deltalake.exceptions import CommitFailedError, DeltaError

from headrace import durable
from headrace.errors import ConfigurationError
from headrace.settings import Settings, current

S3: Final = "s3://"
S3A: Final = "s3a://"
DEFAULT_REGION: Final = "us-east-1"
SIMPLE_PROVIDER: Final = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """How to reach an S3 service. Fields that are empty are left to the libraries."""

    endpoint: str = ""
    region: str = ""
    access_key_id: str = ""
    secret_access_key: str = ""

    @classmethod
    def of(cls, settings: Settings) -> ObjectStore:
        """Return the object store of the settings."""
        region = settings.s3_region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or DEFAULT_REGION
        secret = settings.s3_secret_access_key.reveal()
        return cls(settings.s3_endpoint.rstrip("/"), region, settings.s3_access_key_id, secret)

    def delta_options(self) -> dict[str, str]:
        """Return the storage options of delta-rs. It commits by conditional puts."""
        options = {
            "aws_endpoint": self.endpoint,
            "aws_region": self.region,
            "aws_access_key_id": self.access_key_id,
            "aws_secret_access_key": self.secret_access_key,
            "aws_allow_http": "true" if self.endpoint.startswith("http://") else "",
            "aws_conditional_put": "etag",
        }
        return {name: value for name, value in options.items() if value}

    def file_system(self) -> pafs.FileSystem:
        """Return Arrow's file system."""
        options: dict[str, Any] = {"region": self.region, "allow_delayed_open": True}
        if self.endpoint:
            options["endpoint_override"] = self.endpoint
        if self.access_key_id:
            options |= {"access_key": self.access_key_id, "secret_key": self.secret_access_key}
        return pafs.S3FileSystem(**options)

    def spark_conf(self) -> dict[str, str]:
        conf = {
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.endpoint.region": self.region,
            "fs.s3a.path.style.access": "true" if self.endpoint else "",
            "fs.s3a.connection.ssl.enabled": "false" if self.endpoint.startswith("http://") else "",
            "fs.s3a.aws.credentials.provider": SIMPLE_PROVIDER if self.access_key_id else "",
            "fs.s3a.access.key": self.access_key_id,
            "fs.s3a.secret.key": self.secret_access_key,
        }
        worker = {
            "HEADRACE_S3_ENDPOINT": self.endpoint,
            "HEADRACE_S3_REGION": self.region,
            "HEADRACE_S3_ACCESS_KEY_ID": self.access_key_id,
            "HEADRACE_S3_SECRET_ACCESS_KEY": self.secret_access_key,
        }
        options = {f"spark.hadoop.{name}": value for name, value in conf.items() if value}
        return options | {f"spark.executorEnv.{name}": value for name, value in worker.items() if value}


_stores: dict[str, ObjectStore] = {}


def register(root: str, settings: Settings) -> None:
    """Use the object store of these settings for all URIs below a root in this process."""
    if is_object_store(root):
        _stores[normalize(root)] = ObjectStore.of(settings)


def object_store(uri: str) -> ObjectStore:
    """Return the object store of a URI: that of the closest registered root, else that of the process's settings."""
    roots = [root for root in _stores if uri == root or uri.startswith(f"{root}/")]
    return _stores[max(roots, key=len)] if roots else ObjectStore.of(current())


def is_object_store(uri: str) -> bool:
    """Return whether a URI is in an object store."""
    return uri.startswith((S3, S3A))


def normalize(uri: str) -> str:
    """Return a URI of an object store with the scheme that delta-rs and Arrow share, without a trailing slash."""
    return (S3 + uri.removeprefix(S3A) if uri.startswith(S3A) else uri).rstrip("/")


def delta_options(uri: str) -> dict[str, str] | None:
    """Return the storage options of delta-rs for a URI; None if it needs none."""
    return object_store(uri).delta_options() if is_object_store(uri) else None


def file_system(uri: str) -> tuple[pafs.FileSystem, str]:
    """Return Arrow's file system for a URI, and the path in it.

    A process that uses the file system of delta-rs from Python may abort at exit, so Arrow's is used.
    """
    if is_object_store(uri):
        return _s3(object_store(uri)), normalize(uri).removeprefix(S3)
    if "://" not in uri:
        return pafs.LocalFileSystem(), uri
    system, path = pafs.FileSystem.from_uri(uri)
    return system, path


def write_whole(uri: str, parts: Sequence[bytes | memoryview | pa.Buffer], written: Callable[[], None] = lambda: None) -> None:
    """Write a file that appears when it is complete, and survives a power failure then, with the folders that it needs.

    A PUT to an object store does both. `written` is called before a file elsewhere is put in place.
    """
    system, path = file_system(uri)
    if isinstance(system, pafs.LocalFileSystem):
        durable.make_folder(Path(path).parent)
        durable.write(Path(path), lambda file: file.writelines(parts), written=written)
        return
    draft = path if is_object_store(uri) else f"{path}{durable.DRAFT_SUFFIX}"
    if draft != path:
        system.create_dir(path.rpartition("/")[0], recursive=True)
    with system.open_output_stream(draft) as file:
        for part in parts:
            file.write(part)
    written()
    if draft != path:
        system.move(draft, path)


def locate(root: str, path: str) -> str:
    """Return where a data file is in its file system: paths in a table's log are escaped, and below its root, or URIs."""
    return unquote(path.partition("://")[2]) if "://" in path else f"{root}/{unquote(path)}"


def locate_file(uri: str, path: str) -> tuple[pafs.FileSystem, str]:
    """Return the file system of a table's data file, and where it is in it. It may be in another one than the table."""
    system, root = file_system(uri)
    return (file_system(path)[0] if is_object_store(path) else system), locate(root, path)


def check_exclusive_commits(root: str) -> None:
    """Write an object below a root, and check that a second writer cannot replace it, as commits depend on it.

    Raises:
        ConfigurationError: It cannot be written, or is replaced.
    """
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable, write_deltalake

    uri = f"{normalize(root)}/.check-{uuid.uuid4().hex}"
    rows, options = pa.table({"writer": [1]}), delta_options(uri)
    try:
        write_deltalake(uri, rows, storage_options=options)
        first, second = (DeltaTable(uri, storage_options=options) for _ in range(2))
        exclusive = CommitProperties(max_commit_retries=0)
        write_deltalake(first, rows, mode="append", commit_properties=exclusive)
        try:
            write_deltalake(second, rows, mode="append", commit_properties=exclusive)
        except CommitFailedError:
            return
        finally:
            system, path = file_system(uri)
            system.delete_dir(path)
    except (DeltaError, OSError) as error:
        raise ConfigurationError(
            f"{root} cannot be used: {str(error).partition(chr(10))[0]}",
            hint="check HEADRACE_WAREHOUSE, whether the bucket exists, HEADRACE_S3_ENDPOINT, and the credentials",
        ) from error
    raise ConfigurationError(
        f"{root} lets two writers commit the same version: the object store ignores If-None-Match",
        hint="use an object store with conditional writes",
    )


@functools.lru_cache(maxsize=16)
def _s3(store: ObjectStore) -> pafs.FileSystem:
    """Return a client, which is costly to make. It is safe for use by several threads."""
    return store.file_system()
