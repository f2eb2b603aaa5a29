"""The allocator of delta-rs has its bounds before it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

import pytest

from headrace.allocator import VARIABLE

WATCH: Final = f"""
import os, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "deltalake":
            print(os.environ.get({VARIABLE!r}))

sys.meta_path.insert(0, Watch())
import headrace.{{}}
"""


@pytest.mark.parametrize("module", ["storage", "storage.delta.log", "pipes.sinks.delta", "runtime.snode"])
@pytest.mark.parametrize(("set_before", "expected"), [(None, "narenas:2"), ("narenas:9", "narenas:9")])
def test_what_imports_delta_rs_sets_its_bounds_first(module: str, set_before: str | None, expected: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    environment |= {} if set_before is None else {VARIABLE: set_before}
    command = [sys.executable, "-c", WATCH.format(module)]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert process.stdout.startswith(expected)
