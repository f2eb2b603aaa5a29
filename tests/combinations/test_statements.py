"""Random statements of both dialects: whatever they answer, they raise no error by accident.

HEADRACE_STATEMENTS is their number for each dialect, HEADRACE_DRAW_SEED the seed. By default a few hundred are tested, always the
same ones, and those that once failed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.combinations.statements import STATEMENTS_PER_HOME, Fuzzer, accidents

STATEMENTS = int(os.environ.get("HEADRACE_STATEMENTS", "250"))
FIRST_SEED = int(os.environ.get("HEADRACE_DRAW_SEED", "0"))
HOMES = -(-STATEMENTS // STATEMENTS_PER_HOME)

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark"), pytest.mark.timeout(600)]

KEPT = {
    "tdengine": (
        "select elapsed(ts, 1m) from m1 limit 2147483647 offset 3",
        "select truncate(x, 1h), truncate(x, -3600000), trunc(c, 3600000), round(x, 3600000), round(c, -3600000) from m",
        "select i from m1 limit 9223372036854775807 offset 9223372036854775807",
        "select mode(i) from m having histogram(f, 'user_input', '[1, 3, 5]', 1) != 'x'",
        "select case when histogram(f, 'user_input', '[1, 3, 5]', 1) = 'x' then 1 end from m",
        "select i from m1 order by histogram(f, 'user_input', '[1, 3, 5]', 1)",
        "select sum(- y) from m",
        "explain create stream st0 trigger at_once into out2 as select _wstart, last(*), first(i) from m interval(1m)",
        "select ts + 99999999999999999999s from m",
        "select count(*) from m interval(9223372036854775807s)",
        "select last(*) from (select i from m)",
        "select i from m where ts > 9223372036854775807 or ts < -9223372036854775808",
        "select i from m where ts > 9223372036854775807 and ts >= -9223372036854775809",
        "select ts + 9223372036854775807 from m",
        "select abs(first(e)), sign(last(e)) from m",
        "select sign(i > 1), abs(false) from m",
        "create snode on dnode 18446744073709551616",
        "show databases from missing",
        "select * from information_schema.ins_streams limit 18446744073709551616 offset 18446744073709551616",
        "select * from information_schema.ins_streams where cast(stream_name as int) = 1 or cast('x' as int) = 2",
        "select * from m left anti join m1 on m.ts = m1.ts",
        "select count(*) from m join m1 on m.ts = m1.ts and m.ts > now - 1m join m1 b on b.ts = m.ts and today() is not null",
    ),
    "iotdb": (
        "select master_repair(v, x, l, g) from root.f.a.d1",
        "select udafspread(v) from root.f.a.d1",
        "create pipe empty with source ('source.pattern'='') with sink ('sink'='do-nothing-sink')",
        "select round(x, 2147483648), round(x, -9223372036854775808), round(x, 2) from root.f.a.d1",
        "select substring(word, 3, 9223372036854775807), substring(word from 9223372036854775807) from root.f.a.d1",
        "set ttl to root.f 18446744073709551616",
        "create database root.g with ttl=18446744073709551616",
        "select count(v) from root.f.a.d1 group by ((0, 100], 10ms, 99999999999999999999s)",
        "select v from root.f.a.d1 fill(previous, 9223372036854775807s)",
        "select count_if(time >= 5, 2) from root.f.a.d1 group by level = 1, 2",
        "select v from root.** where v = v and v = v and v = v",
        "select v from root.f.a.d1 where time > 9223372036854775807",
        "select last v from root.f.a.d1 where time < -9223372036854775808",
        "insert into root.f.a.d1(time, stamp) values (10, 9223372036854775807)",
        "select count(v) from root.f.a.d1 group by ([-9223372036854775808, 9223372036854775807), 9000000000000000000ms)",
    ),
}
"""Statements that once failed by accident."""


@pytest.mark.parametrize("dialect", ["tdengine", "iotdb"])
def test_statements_that_once_failed_by_accident_answer_or_are_refused(dialect: str, tmp_path: Path) -> None:
    assert not list(map(str, accidents(dialect, tmp_path, KEPT[dialect])))


@pytest.mark.parametrize("number", range(HOMES))
@pytest.mark.parametrize("dialect", ["tdengine", "iotdb"])
def test_no_statement_fails_by_accident(dialect: str, number: int, tmp_path: Path) -> None:
    statements = Fuzzer(dialect, FIRST_SEED + number).statements(min(STATEMENTS, STATEMENTS_PER_HOME))
    found = {accident.kind: accident for accident in accidents(dialect, tmp_path, statements)}
    assert not found, "\n\n".join(map(str, found.values()))
