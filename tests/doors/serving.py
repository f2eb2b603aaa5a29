"""A process that opens all doors of a home: `python -m tests.doors.serving home password` prints where, and ends with its input."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from headrace.doors import DOORS, with_group_commit
from headrace.doors.gate import Gate
from headrace.runtime.context import open_context
from headrace.service.authentication import authenticator
from headrace.settings import load

NAMES = ("flight", "iotdb", "tdengine")


def main(home: Path, password: str) -> None:
    ports = {f"{name}_port": 0 for name in NAMES}
    context = with_group_commit(open_context(load(home=home, doors=",".join(NAMES), http_token=password, **ports)))
    gate = Gate(context, authenticator(context))
    doors = [door for create in DOORS if (door := create(gate)) is not None]
    for door in doors:
        door.start()
    sys.stdout.write(json.dumps({door.name: door.address for door in doors}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    for door in doors:
        door.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
