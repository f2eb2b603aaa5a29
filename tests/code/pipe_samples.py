"""Plugins of pipes for tests, and instances of them in code hosts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from headrace.code.hosts import HostedClass, HostLimits
from headrace.code.pipes import PluginInstance
from headrace.model.functions import Artifact
from headrace.model.pipe_plugins import RegisteredPipePlugin
from headrace.model.pipes import PipeStage
from headrace.pipe import PipeRuntime

CODE = '''
import json
import os
import time

import pyarrow.compute as pc

from headrace.pipe import DeleteEvent, ParameterError, PipeProcessor, PipeSink, PipeSource, SchemaEvent, TabletEvent


class Counter(PipeSource):
    """Supplies the numbers up to a limit, one in each event."""

    def validate(self, validator):
        validator.validate_required_attribute("limit")

    def customize(self, parameters, runtime):
        self.limit = parameters.get_int("limit")
        self.next = runtime.position or 0
        self.path = parameters.get_string("log")
        self.log(f"customize {runtime.pipe_name} {runtime.position}")

    def start(self):
        self.log("start")

    def supply(self):
        if self.next >= self.limit:
            return None
        if self.next == int(os.environ.get("FAIL_AT", -1)):
            raise OSError("no route")
        self.next += 1
        return TabletEvent.of("root.n.d", [self.next], {"n": [self.next]})

    def position(self):
        return self.next

    def acknowledge(self, position):
        self.log(f"acknowledge {position}")

    def close(self):
        self.log("close")

    def log(self, line):
        if self.path:
            with open(self.path, "a") as file:
                file.write(line + "\\n")


class Forgetful(PipeSource):
    def supply(self):
        return TabletEvent.of("root.n.d", [1], {"n": [object]})


class Scale(PipeProcessor):
    """Multiplies values, and adds the number of rows that it has seen."""

    def validate(self, validator):
        if validator.get_parameters().get_double_or_default("factor", 1.0) == 0:
            raise ParameterError("factor must not be 0")

    def customize(self, parameters, runtime):
        self.factor = parameters.get_double_or_default("factor", 1.0)
        self.store.put("created", self.store.get("created", 0) + 1)

    def process(self, tablet, collector):
        seen = self.store.get("rows", 0) + len(tablet)
        self.store.put("rows", seen)
        columns = zip(tablet.measurements, tablet.values)
        values = {name: [value and value * self.factor for value in column] for name, column in columns}
        numbers = [value for column in values.values() for value in column if value is not None]
        if any(value > 1_000 for value in numbers):
            raise ValueError("too large")
        if any(value < -1_000 for value in numbers):
            os._exit(3)
        collector.collect(TabletEvent.of(tablet.device_id, tablet.timestamps, values | {"seen": [seen] * len(tablet)}))


class FastScale(PipeProcessor):
    def process_batch(self, batch, collector):
        column = batch.table.column_names.index("s")
        collector.collect(batch.with_table(batch.table.set_column(column, "s", pc.multiply(batch.table["s"], 2.0))))


class Recorder(PipeSink):
    """Writes what it gets to a file."""

    secret_attributes = ("password", "token")

    def customize(self, parameters, runtime):
        self.path = parameters.get_string("path")
        self.record("customize", runtime.user)
        with open(self.path + ".processes", "a") as file:
            file.write(f"{os.getpid()}\\n")

    def handshake(self):
        self.record("handshake")

    def heartbeat(self):
        self.record("heartbeat")
        if os.path.exists(self.path + ".away"):
            raise ConnectionError("the receiver is away")

    def transfer(self, event):
        match event:
            case TabletEvent():
                if 666 in event.timestamps:
                    raise ConnectionError("receiver has gone")
                if 667 in event.timestamps:
                    os._exit(4)
                rows = [[row.time, dict(row.items())] for row in event]
                self.record("insert", self.delivery_id, event.device_id, rows, event.is_aligned)
            case DeleteEvent(points):
                self.record("delete", self.delivery_id, [tablet.timestamps for tablet in points.tablets()])
            case SchemaEvent(sql, category):
                self.record("schema", self.delivery_id, sql, category)

    def close(self):
        self.record("close")

    def record(self, *fields):
        with open(self.path, "a") as file:
            file.write(json.dumps(fields) + "\\n")


class FastRecorder(Recorder):
    def transfer_batch(self, batch):
        self.record("batch", self.delivery_id, batch.table.num_rows, batch.table.column_names)


class Hostile(PipeSink):
    def customize(self, parameters, runtime):
        self.act = parameters.get_string("act")

    def transfer(self, event):
        match self.act:
            case "loop":
                while True:
                    pass
            case "exit":
                os._exit(5)
            case "allocate":
                bytearray(10 << 30)


class NotDefined(PipeSink):
    pass


class Other:
    pass
'''


def instance(
    folder: Path,
    class_name: str,
    stage: PipeStage,
    attributes: Mapping[str, str] | None = None,
    limits: HostLimits | None = None,
) -> PluginInstance:
    """Return an instance of a class of the code above, which may write into a folder."""
    path = folder / "plugins.py"
    path.write_text(CODE)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    artifact = Artifact(digest, path.name, path.stat().st_size)
    plugin = RegisteredPipePlugin(class_name.upper(), stage, f"plugins.{class_name}", artifact, owner="ada")
    limits = limits or HostLimits(folders=str(folder), log_folder=str(folder / "logs"))
    hosted = HostedClass(str(path), digest, "plugins", class_name, "ada", limits, f"{stage} of 1")
    return PluginInstance(plugin, hosted, attributes or {}, PipeRuntime("p", "1", "ada"))
