"""Random trees of devices with rows, as statements that both servers execute."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

START: Final = 1_700_000_000_000
END: Final = START + 60_000
SLOW_START: Final = 1_672_531_200_000
"""2023-01-01, where the rows of the slow device begin: one in some days."""
DAY_MS: Final = 86_400_000
GAPS_MS: Final = (100, 200, 500, 1000, 1000, 1000, 2000, 3000, 4500, 9000)

TYPES: Final = {
    "s1": "INT32",
    "s2": "INT64",
    "s3": "FLOAT",
    "s4": "DOUBLE",
    "s5": "BOOLEAN",
    "s6": "TEXT",
    "s7": "STRING",
    "s8": "BLOB",
    "s9": "DATE",
    "s10": "TIMESTAMP",
}
WORDS: Final = ("on", "off", "Idle", "", "x y", "on", "42", "-1.5", "true", " pad ", "ünï", "a.b*c")
VALUES: Final[Mapping[str, Callable[[random.Random], str]]] = {
    "INT32": lambda dice: str(dice.randint(-5, 12)),
    "INT64": lambda dice: str(dice.choice([dice.randint(-1000, 9000), dice.randint(-3, 3), 3_000_000_000])),
    "FLOAT": lambda dice: str(round(dice.uniform(-10, 10), 2)),
    "DOUBLE": lambda dice: str(round(dice.gauss(90, 25), 3)),
    "BOOLEAN": lambda dice: dice.choice(["true", "false"]),
    "TEXT": lambda dice: f"'{dice.choice(WORDS)}'",
    "STRING": lambda dice: f"'{dice.choice(WORDS)}'",
    "BLOB": lambda dice: dice.choice(["X'6f6e'", "X'00ff10'", "X'41'"]),
    "DATE": lambda dice: f"'2024-0{dice.randint(1, 9)}-1{dice.randint(0, 9)}'",
    "TIMESTAMP": lambda dice: str(START + dice.randint(0, 99) * 1000),
}


@dataclass(frozen=True, slots=True)
class TreeDevice:
    """A device with the types of its measurements, and the device template that they are of."""

    path: str
    types: Mapping[str, str]
    aligned: bool = False
    template: str = ""


@dataclass(slots=True)
class Tree:
    """A database with devices; `setup` creates and fills them.

    `template` is the device template of some of the devices, and `functions` are the classes of registered functions by name.
    """

    database: str
    template: str = ""
    devices: dict[str, TreeDevice] = field(default_factory=dict)
    setup: list[str] = field(default_factory=list)
    functions: Mapping[str, str] = field(default_factory=dict)

    def paths(self) -> list[str]:
        """Return the paths of all devices."""
        return [device.path for device in self.devices.values()]


def tree(seed: int) -> Tree:
    """Return the tree of a seed."""
    dice = random.Random(f"tree {seed}")
    made = Tree(f"root.cmp{seed}")
    made.setup.append(f"create database {made.database}")
    six = {name: TYPES[name] for name in ("s1", "s2", "s3", "s4", "s5", "s6")}
    some = {name: TYPES[name] for name in sorted([*dice.sample(sorted(six), dice.randint(2, 5)), "s1"])}
    devices = [
        ("d1", TYPES, False),
        ("d2", six, True),
        ("g.d1", some, dice.random() < 0.5),
        ("g.`d 3`", {"s1": "INT32", "s4": "DOUBLE"}, False),
        ("o.d1", {"s1": dice.choice(["DOUBLE", "TEXT", "BOOLEAN"]), "s4": "FLOAT"}, False),
        ("m1", {"s1": "INT32", "s4": "DOUBLE"}, False),
    ]
    for name, types, aligned in devices:
        device = TreeDevice(f"{made.database}.{name}", types, aligned)
        made.devices[name] = device
        made.setup += create(device, dice)
        times = slow_times(dice) if name == "m1" else fast_times(dice)
        made.setup.append(insert(device, dice, times))
        if dice.random() < 0.3:
            made.setup.append(insert(device, dice, dice.sample(times, 3)))
    add_templated(made, some, dice)
    return made


def add_templated(made: Tree, types: Mapping[str, str], dice: random.Random) -> None:
    """Add two devices that use a device template. One of them may be created by its first rows."""
    made.template, aligned = f"{made.database[5:]}_t", dice.random() < 0.5
    made.setup += [
        f"create device template {made.template}{' aligned' if aligned else ''}({columns(types)})",
        f"set device template {made.template} to {made.database}.p",
    ]
    for name in ("p.d1", "p.d5"):
        device = TreeDevice(f"{made.database}.{name}", types, aligned, made.template)
        made.devices[name] = device
        if name == "p.d1" or dice.random() < 0.5:
            made.setup += create(device, dice)
        made.setup.append(insert(device, dice, fast_times(dice)))


def create(device: TreeDevice, dice: random.Random) -> Iterator[str]:
    """Yield the statements that create the series of a device."""
    if device.template:
        yield f"create timeseries {dice.choice(['using', 'of'])} device template on {device.path}"
        return
    if device.aligned:
        yield f"create aligned timeseries {device.path}({columns(device.types)})"
        return
    for name, type_ in device.types.items():
        alias = f"({name}_alias)" if device.path.endswith("g.d1") and name == "s1" else ""
        tags = f" tags(unit={dice.choice(['rpm', 'bar'])}) attributes(owner=ada)" if dice.random() < 0.2 else ""
        yield f"create timeseries {device.path}.{name}{alias} with datatype={type_}, encoding=PLAIN{tags}"


def columns(types: Mapping[str, str]) -> str:
    """Return measurements with their types, as statements list them."""
    return ", ".join(f"{name} {type_}" for name, type_ in types.items())


def fast_times(dice: random.Random) -> list[int]:
    """Return instants within a minute, some close together."""
    times, at = [], START + dice.randint(0, 6) * 1000 + dice.choice([0, 757])
    while at < END:
        times.append(at)
        at += dice.choice(GAPS_MS)
    return times


def slow_times(dice: random.Random) -> list[int]:
    """Return instants within fourteen months."""
    times, at = [], SLOW_START + dice.randint(0, 30) * DAY_MS // 3
    while at < SLOW_START + 420 * DAY_MS:
        times.append(at)
        at += dice.randint(1, 60) * DAY_MS // 3
    return times


def insert(device: TreeDevice, dice: random.Random, times: list[int]) -> str:
    """Return a statement that inserts rows with some values NULL."""
    rows = []
    for time in times:
        values = ["null" if dice.random() < 0.15 else VALUES[type_](dice) for type_ in device.types.values()]
        if any(value != "null" for value in values):
            rows.append(f"({time}, {', '.join(values)})")
    aligned = " aligned" if device.aligned else ""
    return f"insert into {device.path}(time, {', '.join(device.types)}){aligned} values {', '.join(rows)}"
