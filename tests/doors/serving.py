"""A process that opens the door of a home: `python -m tests.doors.serving home` prints its address, and ends with its input."""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.doors import with_group_commit
from headrace.doors.gate import Gate
from headrace.doors.tdengine.door import create_tdengine_door
from headrace.runtime.context import open_context
from headrace.service.authentication import authenticator
from headrace.settings import load


def main(home: Path, password: str) -> None:
    context = with_group_commit(open_context(load(home=home, doors="tdengine", tdengine_port=0, http_token=password)))
    door = create_tdengine_door(Gate(context, authenticator(context)))
    assert door is not None
    door.start()
    sys.stdout.write(f"{door.address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    door.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
