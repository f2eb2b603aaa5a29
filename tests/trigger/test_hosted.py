"""Triggers in code hosts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pyarrow as pa
import pytest

from headrace.code.hosts import HostedClass, HostLimits, current_hosts
from headrace.code.triggers import HostedTrigger, TabletRows
from headrace.errors import InvalidCodeError, UserCodeError
from headrace.model.functions import Artifact
from headrace.model.triggers import RegisteredTrigger, TriggerEvent, TriggerType
from headrace.trigger import FailureStrategy

CODE = """
from headrace.trigger import FailureStrategy, Trigger

class Recorder(Trigger):
    def validate(self, attributes):
        if attributes.get_int_or_default("limit", 0) < 0:
            raise ValueError("limit is negative")

    def on_create(self, attributes):
        self.created = attributes.get_string("name")

    def restore(self):
        self.store.put("restored", self.store.get("n", 0))

    def fire(self, tablet):
        if None in tablet.values[0]:
            self.store.put("n", -1)
            raise ValueError("a value is missing")
        self.store.put("n", self.store.get("n", 0) + len(tablet))
        self.insert("root.log.d", tablet.timestamps[-1], {"name": self.created, "n": len(tablet), "raw": b"\\x00"})
        return True

    def get_failure_strategy(self):
        return FailureStrategy.PESSIMISTIC

class Silent(Trigger):
    def fire(self, tablet):
        pass

class Exits(Trigger):
    def fire(self, tablet):
        import os
        os._exit(3)

class Idle(Trigger):
    pass
"""


@pytest.fixture(autouse=True)
def no_hosts_remain() -> Iterator[None]:
    """End the hosts of a test."""
    yield
    current_hosts().close()


def hosted(folder: Path, class_name: str, type_: TriggerType = TriggerType.STATEFUL, **attributes: str) -> HostedTrigger:
    path = folder / "triggers.py"
    path.write_text(dedent(CODE))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    artifact = Artifact(digest, path.name, path.stat().st_size)
    name = f"triggers.{class_name}"
    trigger = RegisteredTrigger("t", "id", TriggerEvent.AFTER_INSERT, type_, "root.**", name, artifact, attributes, "ada")
    limits = HostLimits(log_folder=str(folder / "logs"))
    return HostedTrigger(trigger, HostedClass(str(path), digest, "triggers", class_name, "ada", limits))


def tablet(*values: int | None) -> TabletRows:
    rows = pa.table({"time": pa.array(range(len(values)), pa.int64()), "a": pa.array(values, pa.int32())})
    return TabletRows("root.plant.line1", "root.plant", "ms", ("INT32",), rows)


def test_an_instance_is_created_fires_and_stores(tmp_path: Path) -> None:
    trigger = hosted(tmp_path, "Recorder", name="x")
    assert trigger.fire(tablet(1)) is None
    created = trigger.create({"n": "4"}, restores=True)
    assert (created.failure_strategy, created.changes) == (FailureStrategy.PESSIMISTIC, {"restored": "4"})
    fired = trigger.fire(tablet(1, 2))
    assert fired is not None
    assert fired.changes == {"n": "6"}
    assert [(row.device_id, row.time, row.values) for row in fired.insertions] == [
        ("root.log.d", 1, {"name": "x", "n": 2, "raw": b"\x00"})
    ]


def test_a_failure_stores_and_inserts_nothing(tmp_path: Path) -> None:
    trigger = hosted(tmp_path, "Recorder")
    trigger.create({})
    with pytest.raises(
        UserCodeError, match=r"trigger t for root\.plant\.line1 failed: ValueError: a value is missing at triggers\.py:"
    ):
        trigger.fire(tablet(1, None))
    fired = trigger.fire(tablet(1))
    assert fired is not None
    assert fired.changes == {"n": "1"}
    assert len(fired.insertions) == 1


def test_anything_but_true_is_a_failure(tmp_path: Path) -> None:
    trigger = hosted(tmp_path, "Silent")
    trigger.create({})
    with pytest.raises(UserCodeError, match="fire returned None"):
        trigger.fire(tablet(1))


def test_a_host_that_dies_loses_its_instances(tmp_path: Path) -> None:
    trigger = hosted(tmp_path, "Exits")
    trigger.create({})
    with pytest.raises(UserCodeError, match="ended with status 3"):
        trigger.fire(tablet(1))
    assert trigger.fire(tablet(1)) is None


def test_a_stateless_trigger_has_no_store(tmp_path: Path) -> None:
    trigger = hosted(tmp_path, "Recorder", TriggerType.STATELESS)
    trigger.create({})
    with pytest.raises(UserCodeError, match="a stateless trigger has no store"):
        trigger.fire(tablet(1))


def test_invalid_attributes_and_classes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserCodeError, match="limit is negative"):
        hosted(tmp_path, "Recorder", limit="-1").create({})
    with pytest.raises(InvalidCodeError, match="does not define fire"):
        hosted(tmp_path, "Idle").create({})


def test_triggers_of_one_file_have_instances_of_their_own(tmp_path: Path) -> None:
    first = hosted(tmp_path, "Recorder", name="first")
    second = HostedTrigger(replace(first.trigger, id="second", attributes={"name": "second"}), first.hosted)
    first.create({})
    second.create({})
    fired = [trigger.fire(tablet(1)) for trigger in (first, second)]
    assert [result and result.insertions[0].values["name"] for result in fired] == ["first", "second"]
    first.drop()
    assert first.fire(tablet(1)) is None
    assert second.fire(tablet(1)) is not None
