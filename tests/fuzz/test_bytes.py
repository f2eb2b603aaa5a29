"""Bytes from outside: whatever comes, what reads it raises named errors at most, and takes bounded time and memory.

HEADRACE_FUZZ_INPUTS is the number of inputs, HEADRACE_DRAW_SEED the seed. By default some thousands are read, always the same ones,
and those that once went wrong.
"""

from __future__ import annotations

import os

import pytest

from tests.fuzz.campaign import Campaign
from tests.fuzz.targets import targets

TARGETS = targets()
INPUTS = int(os.environ.get("HEADRACE_FUZZ_INPUTS", "20000"))
SEED = int(os.environ.get("HEADRACE_DRAW_SEED", "0"))

pytestmark = pytest.mark.timeout(600 + INPUTS // 500)

KEPT: dict[str, tuple[bytes, ...]] = {
    "iotdb-blocks": (
        b"\x00\x00\x00\x00\x10\x00\x00\x00\x00\x02\x02\x01\x03\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x01",
        b"\x00\x00\x00\x02\x01\x05\x00\x00\x00\x02\x02\x01\x03\x00\x00\x00",
        b"\x00\x00\x00\x80\xff\xff\xff\xff",
        b"\x00\x00\x00\x02\x01\x05\x00\x00\x00\x02\x02\x01\x03" + bytes(8) + b"\x01\x00\x00\x00\x00\x00\x00\x00\x02\x01@",
        b"\x00\x00\x00\x00\x7f\xff\xff\xff\x04\x02\x00" + bytes(8),
        b"\x00\x00\x00\x01\x01\x00\x00\x00\x00\x02\x04\x00" + b"\x04" * 5_000,
    ),
    "iotdb-pipe": (
        TARGETS["iotdb-pipe"].seeds[1].replace(b"\0\0\0\x03\0\0\0\x01", b"\0\0\0\x02\0\0\0\x01"),
        TARGETS["iotdb-pipe"].seeds[1].replace(b"\0\0\0\x03\0\0\0\x01", b"\0\0\0\x09\0\0\0\x01"),
    ),
    "opentsdb": (
        b'{"metric":"m","timestamp":1,"value":1,"tags":{"a":' + b"1" * 400 + b"}}",
        b'{"metric":"m\\ud800","timestamp":1,"value":1,"tags":{"a":"\\udc00"}}',
    ),
    "message-json": (b'{"device":"r' + b"\xff" * 18 + b',"timestamps":[1,2],"measurements":["a"],"values":[[1],[2]]}]]:1,"meas',),
    "message-csv": (b"1,2" + b"," * 300 + b"\n1,2,3", b"\r\n1,2,3"),
    "message-line": (b"m,t=1 v=199999999999999999999999999999999999999i 1700000000000000000",),
    "sql-tdengine": (b"INSERT INTO t1 VALUES (1, 1e-" + b"4" * 40 + b")",),
    "credentials": (b"Basic \xff", b"Taosd \xff"),
    "manifest": (b'{"backup":' * 2_000,),
    "archive": (TARGETS["archive"].seeds[0].replace("größe".encode(), b"gr\xff\xffe"),),
}
"""Inputs that once went wrong."""


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_valid(name: str) -> None:
    for content in TARGETS[name].seeds:
        TARGETS[name].read(content)


@pytest.mark.parametrize("name", KEPT)
def test_inputs_that_once_went_wrong_are_read_or_refused(name: str) -> None:
    assert not list(map(str, Campaign(name, TARGETS[name], SEED).read_all(KEPT[name])))


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_goes_wrong(name: str) -> None:
    share = TARGETS[name].part / sum(target.part for target in TARGETS.values())
    findings = Campaign(name, TARGETS[name], SEED).run(int(INPUTS * share) + 1)
    assert not findings, "\n\n".join(map(str, findings))
