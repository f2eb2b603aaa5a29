"""The files of external tables, and what has become of each."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.model.external_tables import External
from headrace.storage.delta.handles import Handle
from headrace.storage.delta.text_folders import Details
from headrace.storage.object_store import file_system

MAX_LISTED_FILES: Final = 10_000
FOOTER_THREADS: Final = 8
LOADED, FAILED = "LOADED", "FAILED"


@dataclass(frozen=True, slots=True)
class ExternalFile:
    """A file of an external table.

    Attributes:
        name: Its place below that of the table.
        state: `LOADED`, or `FAILED` if nothing of it could be read.
        rows: Those that the table has; None if the log does not say.
        rejected: Those that were left out.
        bytes: Its size.
        modified_ms: When it was changed, in epoch ms.
        message: The first rows that were left out, and why; or why it failed.
    """

    name: str
    state: str
    rows: int | None
    rejected: int
    bytes: int
    modified_ms: int
    message: str | None = None


def external_files(handle: Handle, external: External) -> list[ExternalFile]:
    """Return the files of a table, the newest first, at most `MAX_LISTED_FILES`."""
    with handle.latest() as delta:
        actions = pa.table(delta.get_add_actions(flatten=True))
    names = ["path", "num_records", "size_bytes", "modification_time"]
    newest = actions.select(names).sort_by([("modification_time", "descending"), ("path", "ascending")])
    files = newest.slice(0, MAX_LISTED_FILES)
    if external.format.is_text:
        return list(converted_files(handle.uri, external, files["path"].to_pylist()))
    files = files.set_column(3, names[3], files[names[3]].cast(pa.int64()))
    rows = zip(*(column.to_pylist() for column in files.columns), strict=True)
    return [ExternalFile(below(external, path), LOADED, count, 0, size, modified) for path, count, size, modified in rows]


def converted_files(uri: str, external: External, paths: list[str]) -> Iterator[ExternalFile]:
    """Yield the files of which others were made, by what these say."""
    system, root = file_system(uri)

    def read(path: str) -> ExternalFile:
        metadata = pq.read_metadata(f"{root}/{path}", filesystem=system)
        details, rows = Details.of(metadata), metadata.num_rows
        state = FAILED if details.failed else LOADED
        message = "; ".join(details.reasons) or None
        name = below(external, details.uri)
        return ExternalFile(name, state, rows, details.rejected, details.bytes, details.modified_ms, message)

    with ThreadPoolExecutor(FOOTER_THREADS) as executor:
        yield from executor.map(read, paths)


def below(external: External, uri: str) -> str:
    """Return the path of a file below the place of a table."""
    path = PurePosixPath(unquote(uri.partition("://")[2] or uri))
    root = file_system(external.location)[1]
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
