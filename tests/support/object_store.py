"""A real S3 server for the tests: MinIO, built once from its Go module, with its data in a temporary folder.

`python -m tests.support.object_store COMMAND…` runs a command whose streams have their tables on the server. If there is no Go to
build it with, tests that need it are skipped.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import pyarrow.fs as pafs
import pytest
from filelock import FileLock

from headrace.runtime.processes import find_free_port
from headrace.storage.spark.jars import cache_directory
from tests.support.waiting import wait_until

MODULE: Final = "github.com/minio/minio"
VERSION: Final = "v0.0.0-20260212201848-7aac2a2c5b7c"
MISSING: Final = "there is no S3 server: install Go 1.24 or newer to build MinIO"
USER: Final = "headrace-test"
PASSWORD: Final = "headrace-test-secret"
WAREHOUSE_VARIABLE: Final = "HEADRACE_TEST_WAREHOUSE"
"""Root of the warehouses of the environments of stream tests; not set for local folders."""
REQUESTS: Final = re.compile(r'^minio_api_requests_total\{name="(\w+)".*type="s3"\} (\d+)', re.MULTILINE)
MAX_BUILD_S: Final = 1_800
VARIABLES: Final = {
    "MINIO_ROOT_USER": USER,
    "MINIO_ROOT_PASSWORD": PASSWORD,
    "MINIO_BROWSER": "off",
    "MINIO_PROMETHEUS_AUTH_TYPE": "public",
    "MINIO_UPDATE": "off",
}


@dataclass
class Server:
    """A running server, with its data and its log in a folder."""

    url: str
    program: Path
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server on its data, and wait until it answers."""
        command = [str(self.program), "server", "--address", self.url.removeprefix("http://"), str(self.folder / "data")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, env=os.environ | VARIABLES, stdout=log, stderr=log)
        wait_until(self.is_alive, "MinIO to answer", details=(self.folder / "log").read_text)

    def kill(self) -> None:
        """Kill the server, and keep its data."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(60)

    @property
    def variables(self) -> dict[str, str]:
        """The settings with which Headrace reaches the server, as environment variables."""
        return {
            "HEADRACE_S3_ENDPOINT": self.url,
            "HEADRACE_S3_ACCESS_KEY_ID": USER,
            "HEADRACE_S3_SECRET_ACCESS_KEY": PASSWORD,
        }

    def file_system(self) -> pafs.FileSystem:
        """Return the server's objects."""
        return pafs.S3FileSystem(
            access_key=USER, secret_key=PASSWORD, endpoint_override=self.url, region="us-east-1", allow_bucket_creation=True
        )

    def create_bucket(self) -> str:
        """Create a bucket, and return its URI."""
        name = f"b{uuid.uuid4().hex}"
        self.file_system().create_dir(name)
        return f"s3://{name}"

    def objects(self, uri: str) -> list[str]:
        """Return the paths of all objects below a URI."""
        selector = pafs.FileSelector(uri.removeprefix("s3://"), recursive=True, allow_not_found=True)
        return [info.path for info in self.file_system().get_file_info(selector) if info.type is pafs.FileType.File]

    def requests(self) -> Counter[str]:
        """Return how many requests the server has handled, by operation."""
        text = httpx.get(f"{self.url}/minio/metrics/v3/api/requests", trust_env=False).text
        return Counter({name: int(number) for name, number in REQUESTS.findall(text)})

    def is_alive(self) -> bool:
        """Return whether the server answers."""
        with suppress(httpx.HTTPError):
            return httpx.get(f"{self.url}/minio/health/live", trust_env=False).is_success
        return False


def find_program() -> Path | None:
    """Return the server's program, built if it was not yet; None if there is no Go."""
    installed = shutil.which("minio")
    if installed:
        return Path(installed)
    program = cache_directory() / f"minio-{VERSION}"
    go = shutil.which("go")
    if not program.exists() and go is not None:
        program.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{program}.lock"):
            if not program.exists():
                build(go, program)
    return program if program.exists() else None


def build(go: str, program: Path) -> None:
    """Build the server from its module, and move it into place."""
    with tempfile.TemporaryDirectory(dir=program.parent) as scratch:
        command = [go, "install", "-ldflags=-s -w", f"{MODULE}@{VERSION}"]
        subprocess.run(command, env=os.environ | {"GOBIN": scratch}, check=False, timeout=MAX_BUILD_S)
        with suppress(FileNotFoundError):
            (Path(scratch) / "minio").rename(program)


@contextmanager
def running_server(program: Path) -> Iterator[Server]:
    """Run a server, and end it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-minio-"))
    server = Server(f"http://127.0.0.1:{find_free_port()}", program, folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def object_store() -> Iterator[Server]:
    """Provide the S3 server of the test run, or skip the test if there is none."""
    program = find_program()
    if program is None:
        pytest.skip(MISSING)
    with running_server(program) as server:
        yield server


def warehouse_options() -> dict[str, str]:
    """Return the settings of a new warehouse on the object store of the test run; none if there is no such store."""
    root = os.environ.get(WAREHOUSE_VARIABLE)
    return {"warehouse": f"{root}/{uuid.uuid4().hex}"} if root else {}


def main(command: list[str]) -> int:
    """Run a command with a server, or without a command only build it; return the exit code."""
    program = find_program()
    if program is None:
        print(MISSING, file=sys.stderr)  # noqa: T201
        return 1
    if not command:
        return 0
    with running_server(program) as server:
        variables = server.variables | {WAREHOUSE_VARIABLE: server.create_bucket()}
        return subprocess.run(command, env=os.environ | variables, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
