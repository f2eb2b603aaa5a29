"""The allocators of delta-rs and Arrow have their bounds before they start."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

import pytest

from headrace.allocator import ARROW, DELTA

WATCH: Final = """
import os, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == {package!r}:
            print(os.environ.get({variable!r}))

sys.meta_path.insert(0, Watch())
import headrace.{module}
"""
PACKAGES: Final = {DELTA: "deltalake", ARROW: "pyarrow"}


@pytest.mark.parametrize("module", ["storage", "storage.delta.log", "pipes.sinks.delta", "runtime.snode"])
@pytest.mark.parametrize(
    ("variable", "set_before", "expected"),
    [(DELTA, None, "narenas:2"), (DELTA, "narenas:9", "narenas:9"), (ARROW, None, "0"), (ARROW, "1", "1")],
)
def test_what_imports_a_package_sets_its_bounds_first(module: str, variable: str, set_before: str | None, expected: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != variable}
    environment |= {} if set_before is None else {variable: set_before}
    code = WATCH.format(package=PACKAGES[variable], variable=variable, module=module)
    process = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert process.stdout.startswith(expected)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has pages of 2 MB for this")
def test_arrow_holds_little_for_a_few_small_buffers() -> None:
    code = """
import re
def large_pages():
    return int(re.search(r"AnonHugePages: +(\\d+)", open("/proc/self/smaps_rollup").read())[1])

before = large_pages()
import headrace
import pyarrow as pa
kept = [pa.array(range(1_000)) for _ in range(1_000)]
print(pa.default_memory_pool().backend_name, large_pages() <= before)
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.split() == ["mimalloc", "True"]
