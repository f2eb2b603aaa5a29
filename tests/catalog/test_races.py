from __future__ import annotations

from collections import Counter
from contextlib import suppress
from multiprocessing.sharedctypes import Synchronized
from typing import Any

import pytest

from headrace.catalog import Catalog
from headrace.errors import Error, ExistsError, TransientError
from headrace.model.jobs import JobProgress
from headrace.model.ledger import ChunkState
from headrace.model.tables import Database, TableId
from tests.catalog.samples import chunks, definition, plain_table, supertable, with_stream
from tests.support.forking import CONTEXT
from tests.support.racing import race

ROUNDS = 40
HOUR = 3_600_000


def take_turns(url: str, holder: str, inside: Synchronized[int]) -> list[int]:
    """Return the epochs of the leases that this holder acquired and released in turn."""
    epochs: list[int] = []
    with Catalog.open(url) as catalog:
        while len(epochs) < ROUNDS:
            lease = catalog.leases.acquire("default", holder, HOUR)
            if lease is None:
                continue
            with inside.get_lock():
                inside.value += 1
            assert inside.value == 1, "two hold the lease at once"
            catalog.leases.renew(lease, HOUR)
            with inside.get_lock():
                inside.value -= 1
            catalog.leases.release(lease)
            epochs.append(lease.epoch)
    return epochs


def take_expired_leases(url: str, holder: str) -> list[int]:
    """Return the epochs of leases that expire at once, so that any process may take the next."""
    with Catalog.open(url, clock=lambda: 0) as catalog:
        leases = [catalog.leases.acquire("default", holder, ttl_ms=0) for _ in range(ROUNDS)]
    return [lease.epoch for lease in leases if lease is not None]


def claim_all(url: str, job_id: str, holder: str) -> list[int]:
    """Return the numbers of the chunks that this holder claimed."""
    won = []
    with Catalog.open(url) as catalog:
        for chunk in catalog.ledger.plan(job_id, "history", chunks(ROUNDS)):
            try:
                if catalog.ledger.claim(job_id, "history", chunk.number, holder).state is ChunkState.RUNNING:
                    won.append(chunk.number)
                    catalog.ledger.finish(job_id, "history", chunk.number, 1, holder)
            except TransientError:
                continue
    return won


def add_subtables(url: str, names: list[str]) -> dict[str, int]:
    with Catalog.open(url) as catalog:
        catalog.subtables.add("power", "meters", names)
        return {name: subtable.uid for name, subtable in catalog.subtables.find("power", names).items()}


def claim_names(url: str, kind: str) -> list[str]:
    """Return the names that became plain tables, subtables of meters or streams of this process."""
    won = []
    with Catalog.open(url) as catalog:
        for name in (f"n{number}" for number in range(ROUNDS)):
            with suppress(ExistsError):
                if kind == "table":
                    catalog.tables.create(plain_table(name))
                else:
                    catalog.subtables.add("power", "meters", [name])
                won.append(name)
    return won


def write_repeatedly(url: str, job_id: str, done: Any) -> None:
    with Catalog.open(url) as catalog:
        for number in range(ROUNDS // 2):
            catalog.jobs.set_progress(job_id, JobProgress(updated=number))
            catalog.subtables.add("power", "meters", [f"d{number}_{index}" for index in range(100)])
            catalog.events.record("job", job_id, "WROTE", str(number))
    done.set()


def read_repeatedly(url: str, job_id: str, done: Any) -> int:
    """Return how often everything could be read, over an open connection and over new ones."""
    rounds = 0
    with Catalog.open(url) as catalog:
        while not done.is_set() or not rounds:
            catalog.jobs.by_id(job_id)
            assert len(catalog.subtables.all("power")) % 100 == 0, "half of a transaction was seen"
            with Catalog.open(url) as other:
                other.events.all()
            rounds += 1
    return rounds


def drop_and_create(url: str, number: int) -> int:
    """Return how often this process's database was dropped and created while others worked in it."""
    errors: Counter[str] = Counter()
    with Catalog.open(url) as catalog:
        for turn in range(ROUNDS // 2):
            name = f"{number}_{turn}"
            try:
                catalog.databases.create(Database("shared"), if_not_exists=True)
                catalog.tables.create(supertable(f"t{name}", "shared"))
                catalog.subtables.add("shared", f"t{name}", [f"d{name}_{index}" for index in range(5)])
                source, target = TableId("shared", f"t{name}"), TableId("shared", f"{name}_out")
                catalog.jobs.create(definition(name, database="shared", sources=(source,), target=target))
                catalog.databases.drop("shared", if_exists=True)
            except Error as error:
                errors[error.code] += 1
    assert set(errors) <= {"NOT_FOUND"}, errors
    return errors.total()


@pytest.mark.usefixtures("catalog")
def test_an_epoch_has_one_holder_and_a_lease_has_one_at_a_time(url: str) -> None:
    inside = CONTEXT.Value("i", 0)
    epochs = race(take_turns, [(url, holder, inside) for holder in "abc"])
    assert sorted(epochs[0] + epochs[1] + epochs[2]) == list(range(1, 3 * ROUNDS + 1))


@pytest.mark.usefixtures("catalog")
def test_no_epoch_is_handed_out_twice(url: str) -> None:
    epochs = [epoch for won in race(take_expired_leases, [(url, holder) for holder in "ab"]) for epoch in won]
    assert sorted(epochs) == list(range(1, 2 * ROUNDS + 1))


def test_each_chunk_is_done_by_one_process_and_none_is_skipped(url: str, catalog: Catalog) -> None:
    stream = with_stream(catalog)
    won = race(claim_all, [(url, stream.id, holder) for holder in "abc"])
    assert sorted(number for numbers in won for number in numbers) == list(range(ROUNDS))
    assert catalog.ledger.summary(stream.id, "history").complete


def test_processes_that_add_the_same_subtables_agree_on_their_uids(url: str, power: Catalog) -> None:
    power.tables.create(supertable("meters"))
    names = [f"d{number}" for number in range(3_000)]
    orders = [names, names[::-1], names[1_500:] + names[:1_500]]
    first, second, third = race(add_subtables, [(url, order) for order in orders])
    assert first == second == third
    assert len(power.subtables.all("power")) == 3_000


def test_a_name_becomes_a_table_or_a_subtable_but_never_both(url: str, power: Catalog) -> None:
    power.tables.create(supertable("meters"))
    won = race(claim_names, [(url, kind) for kind in ("table", "subtable", "table", "subtable")])
    tables, subtables = {*won[0], *won[2]}, {*won[1], *won[3]}
    assert tables | subtables == {f"n{number}" for number in range(ROUNDS)}
    assert not tables & subtables
    assert not set(won[0]) & set(won[2])


def test_reading_never_fails_while_others_write(url: str, catalog: Catalog) -> None:
    stream = with_stream(catalog)
    done = CONTEXT.Event()
    racers = [
        (write_repeatedly, url, stream.id, done),
        (read_repeatedly, url, stream.id, done),
        (read_repeatedly, url, stream.id, done),
    ]
    reads = race(call, racers)[1:]
    assert min(reads) > 0


def call(function: Any, *arguments: Any) -> Any:
    return function(*arguments)


def test_databases_that_come_and_go_leave_nothing_half_done(url: str, catalog: Catalog) -> None:
    race(drop_and_create, [(url, number) for number in range(3)])
    catalog.databases.drop("shared", if_exists=True)
    assert catalog.databases.all() == []
    assert catalog.jobs.all() == []
