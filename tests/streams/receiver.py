"""A receiver of messages: a small TCP server in its own process that can be told to fail or to stall, and be killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import socketserver
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

# The process of the receiver needs none of Headrace.
if TYPE_CHECKING:
    from headrace.storage.delta.outbox import Message

TIMEOUT_S = 1.0


class Receiver:
    """The receiver's process, and the files with the messages it has received: `kept`, and `duplicates` that it has dropped."""

    def __init__(self, folder: Path) -> None:
        from headrace.runtime.processes import find_free_port

        self.folder = folder
        self.process: subprocess.Popen[str] | None = None
        self.port = find_free_port()

    def start(self) -> None:
        """Start, or restart on the same port with the messages received so far."""
        command = [sys.executable, "-m", "tests.streams.receiver", str(self.folder), str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "listening\n"

    def kill(self) -> None:
        """Kill the process, if it runs."""
        if self.process is not None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def set_mode(self, mode: str) -> None:
        """Set the mode: `ok`, `refuse` before keeping, `drop` the connection after keeping, or `stall`."""
        (self.folder / "mode").write_text(mode)

    def payloads(self) -> list[dict[str, Any]]:
        """Return the messages that were kept, in the order of arrival."""
        return [json.loads(line["payload"]) for line in lines(self.folder / "kept")]

    def duplicates(self) -> int:
        """Return the number of messages that were dropped because they were received before."""
        return len(lines(self.folder / "duplicates"))


def sender(port: int) -> Callable[[Sequence[Message]], None]:
    """Return a function that sends messages to the receiver at a port."""

    def send(messages: Sequence[Message]) -> None:
        with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as connection, connection.makefile("rw") as file:
            for message in messages:
                print(json.dumps({"id": message.id, "payload": message.payload.decode()}), file=file)
            print("end", file=file, flush=True)
            if file.readline() != "ok\n":
                raise ConnectionError("not acknowledged")

    return send


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def key(id: str) -> tuple[int, ...]:
    return tuple(int(part) for part in id.split("/")[1:])


class Handler(socketserver.StreamRequestHandler):
    folder: Path

    def handle(self) -> None:
        received = []
        for line in self.rfile:
            if line == b"end\n":
                break
            received.append(json.loads(line))
        if self.mode() == "refuse":
            return
        while self.mode() == "stall":
            time.sleep(0.02)
        self.keep(received)
        if self.mode() != "drop":
            self.wfile.write(b"ok\n")

    def mode(self) -> str:
        path = self.folder / "mode"
        return path.read_text() if path.exists() else "ok"

    def keep(self, received: list[dict[str, Any]]) -> None:
        """Keep messages newer than the last one, and drop the others."""
        last = max((key(line["id"]) for line in lines(self.folder / "kept")), default=(-1,))
        for message in received:
            name = "kept" if key(message["id"]) > last else "duplicates"
            with (self.folder / name).open("a") as file:
                print(json.dumps(message), file=file)


class Server(socketserver.TCPServer):
    allow_reuse_address = True


if __name__ == "__main__":
    Handler.folder = Path(sys.argv[1])
    with Server(("127.0.0.1", int(sys.argv[2])), Handler) as server:
        sys.stdout.write("listening\n")
        sys.stdout.flush()
        server.serve_forever()
