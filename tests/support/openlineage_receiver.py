"""A receiver of OpenLineage's events: an HTTP server that keeps what it gets, and the schemas of the specification."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from referencing import Registry, Resource

from tests.support.waiting import wait_until

SCHEMAS: Final = Path(__file__).parents[1] / "runtime" / "data" / "openlineage"
"""Of the specification (https://openlineage.io, Apache License 2.0), as they were published."""
RUN_EVENT: Final = "OpenLineage.json"
Event = dict[str, Any]


class Receiver:
    """What a server has received."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.events: list[Event] = []

    def of(self, job: str, *states: str) -> list[Event]:
        """Return the events of a job, of all states or of some."""
        return [one for one in list(self.events) if one["job"]["name"] == job and (not states or one["eventType"] in states)]

    def wait_for(self, job: str, state: str, accepts: Callable[[Event], bool] = lambda _: True, details: Any = None) -> Event:
        """Return the first event of a job and state that is accepted, once there is one."""

        def found() -> list[Event]:
            return [event for event in self.of(job, state) if accepts(event)]

        def describe() -> str:
            seen = [(event["job"]["name"], event["eventType"]) for event in self.events]
            return f"{seen}\n{details() if details else ''}"

        wait_until(lambda: bool(found()), f"{state} of {job}", details=describe)
        return found()[0]


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Run a receiver."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            received.events.append(body)
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Be quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received = Receiver(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@functools.cache
def read_schemas() -> tuple[dict[str, str], Registry[Any]]:
    """Return the ids of the schemas by their file names, and the schemas by their ids."""
    schemas = {file.name: json.loads(file.read_text()) for file in SCHEMAS.glob("*.json")}
    resources = [(schema["$id"], Resource.from_contents(schema)) for schema in schemas.values()]
    return {name: schema["$id"] for name, schema in schemas.items()}, Registry().with_resources(resources)


def check_event(event: Event) -> None:
    """Check an event and all of its facets, each against the schema that it names, in the version that is here."""
    ids, registry = read_schemas()
    Draft202012Validator({"$ref": f"{ids[RUN_EVENT]}#/$defs/RunEvent"}, registry=registry).validate(event)
    for facet in facets_of(event):
        document, _, definition = facet["_schemaURL"].partition("#")
        here = ids[document.rpartition("/")[2]]
        Draft202012Validator({"$ref": f"{here}#{definition}"}, registry=registry).validate(facet)


def facets_of(event: Event) -> Iterator[Event]:
    """Yield all facets of an event."""
    yield from event["run"].get("facets", {}).values()
    yield from event["job"].get("facets", {}).values()
    for dataset in (*event.get("inputs", []), *event.get("outputs", [])):
        for group in ("facets", "inputFacets", "outputFacets"):
            yield from dataset.get(group, {}).values()
