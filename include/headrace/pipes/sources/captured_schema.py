"""The schema of trees as it was when a pipe was created, as statements in files beside the pipe's checkpoints."""

from __future__ import annotations

import json
from typing import Final

from pyarrow import fs

from headrace.context import Context
from headrace.model.positions import Offsets
from headrace.pipes.checkpoints import storage_error
from headrace.pipes.events import StatementEvent
from headrace.pipes.plugins import SourceBatch
from headrace.pipes.sources.present_schema import SCHEMA, PresentSchema
from headrace.storage.object_store import file_system, write_whole

PAGE: Final = "schema-{:06d}.json"


class CapturedSchema:
    """Files with the statements of a batch each. They go with the checkpoints of the pipe."""

    def __init__(self, context: Context, pipe_id: str) -> None:
        """Take the folder; nothing is read yet."""
        self._uri = f"{context.state_uri}/{pipe_id}"
        self._system, self._folder = file_system(self._uri)

    def write(self, schema: PresentSchema) -> None:
        """Write the present schema; raise `OperationalError` if the storage fails."""
        offsets: Offsets = {SCHEMA: 0}
        page = 0
        try:
            while (batch := schema.read(offsets)) is not None:
                statements = [[event.category, event.sql] for event in batch.events if isinstance(event, StatementEvent)]
                offsets = batch.offsets
                # The first file says that a schema was captured, be it empty.
                if statements or page == 0:
                    write_whole(f"{self._uri}/{PAGE.format(page)}", [json.dumps(statements).encode()])
                    page += 1
        except OSError as error:
            raise storage_error("written", error) from error

    def exists(self) -> bool:
        """Return whether a schema was captured."""
        return self._has(0)

    def read(self, offsets: Offsets) -> SourceBatch:
        """Return the next statements; after the last, an empty batch whose offsets say that the schema was read."""
        page = offsets[SCHEMA]
        if not self._has(page):
            return SourceBatch((), {name: offset for name, offset in offsets.items() if name != SCHEMA})
        try:
            with self._system.open_input_stream(self._path(page)) as file:
                statements = json.loads(file.read())
        except OSError as error:
            raise storage_error("read", error) from error
        return SourceBatch([StatementEvent(sql, category) for category, sql in statements], {**offsets, SCHEMA: page + 1})

    def _has(self, page: int) -> bool:
        try:
            return bool(self._system.get_file_info(self._path(page)).type == fs.FileType.File)
        except OSError as error:
            raise storage_error("read", error) from error

    def _path(self, page: int) -> str:
        return f"{self._folder}/{PAGE.format(page)}"
