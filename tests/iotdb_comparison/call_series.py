"""Random series for calls of functions: irregular and regular ones, with NaN, gaps and NULL, and such as some functions need."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tests.iotdb_comparison.registered import REGISTERED
from tests.iotdb_comparison.trees import START, Tree, TreeDevice

GAPS_MS: Final = (300, 1000, 1000, 1000, 1000, 1500, 2000, 2137, 4000, 12_000)
WORDS: Final = ("on on on", "a,b,c", "192.168.0.1 ok", "A1B2", "", "o", "on,off", "x,,y", " ", "ünï,on")
TYPES: Final = {"s1": "INT32", "s2": "INT64", "s3": "FLOAT", "s4": "DOUBLE", "s5": "BOOLEAN", "s6": "TEXT"}
ALL_TYPES: Final = {**TYPES, "s7": "STRING", "s9": "DATE", "s10": "TIMESTAMP"}
NUMBERS: Final = {name: TYPES[name] for name in ("s1", "s2", "s3", "s4")}

Values = Callable[[int], str]
"""The values of a series by the index of the row."""


def call_tree(seed: int) -> Tree:
    """Return the series of a seed.

    d1 is irregular with NaN and NULL, d2 regular and aligned, p complete with 2^n rows, w periodic, f a spectrum at the times
    0, 1, 2, …, e a few rows, n has only NaN, c constants, and z no rows.
    """
    dice = random.Random(f"calls {seed}")
    made = Tree(f"root.fun{seed}")
    made.functions = {name: function.class_name for name, function in REGISTERED.items()}
    made.setup += [f"create function {name} as '{class_name}'" for name, class_name in made.functions.items()]
    made.setup.append(f"create database {made.database}")
    length = dice.choice((24, 40, 60))
    power = dice.choice((8, 16, 32))
    regular = [START + 1000 * index for index in range(64)]
    add(made, dice, "d1", ALL_TYPES, irregular(dice, length), noisy(dice), nulls=0.12)
    add(made, dice, "d2", TYPES, dice.sample(regular[:50], 46), noisy(dice, nan=0), nulls=0.04, aligned=True)
    add(made, dice, "p", NUMBERS, regular[:power], noisy(dice, nan=0))
    add(made, dice, "w", NUMBERS, regular, periodic(dice))
    add(made, dice, "f", NUMBERS, list(range(16)), noisy(dice, nan=0))
    add(made, dice, "e", TYPES, irregular(dice, dice.choice((1, 2, 3, 4))), noisy(dice), nulls=0.1)
    add(made, dice, "n", NUMBERS, irregular(dice, 15), {**noisy(dice), "s3": lambda _: "NaN", "s4": lambda _: "NaN"})
    add(made, dice, "c", NUMBERS, regular[:20], {name: lambda _: "3" for name in NUMBERS})
    add(made, dice, "z", NUMBERS, [], {})
    return made


def add(
    made: Tree,
    dice: random.Random,
    name: str,
    types: Mapping[str, str],
    times: Sequence[int],
    values: Mapping[str, Values],
    nulls: float = 0,
    aligned: bool = False,
) -> None:
    """Add a device with rows. A row without values is left out."""
    device = TreeDevice(f"{made.database}.{name}", types, aligned)
    made.devices[name] = device
    if aligned:
        made.setup.append(f"create aligned timeseries {device.path}({', '.join(f'{key} {type_}' for key, type_ in types.items())})")
    else:
        made.setup += [
            f"create timeseries {device.path}.{key} with datatype={type_}, encoding=PLAIN" for key, type_ in types.items()
        ]
    rows = []
    for index, time in enumerate(sorted(times)):
        cells = ["null" if dice.random() < nulls else values[key](index) for key in types]
        if any(cell != "null" for cell in cells):
            rows.append(f"({time}, {', '.join(cells)})")
    if rows:
        made.setup.append(
            f"insert into {device.path}(time, {', '.join(types)}){' aligned' if aligned else ''} values {', '.join(rows)}"
        )


def irregular(dice: random.Random, length: int) -> list[int]:
    """Return instants with gaps, most of them one second apart."""
    at, times = START + dice.choice((0, 757, 4000)), []
    for _ in range(length):
        times.append(at)
        at += dice.choice(GAPS_MS)
    return times


def noisy(dice: random.Random, nan: float = 0.05) -> dict[str, Values]:
    """Return values without order: a walk with jumps in s4, small numbers with equal ones among them elsewhere."""
    level = [dice.choice((100.0, 0.0, -20.0))]

    def walk(_: int) -> str:
        level[0] += dice.gauss(0, 2)
        jump = dice.choice((30, -45)) if dice.random() < 0.06 else 0
        return "NaN" if dice.random() < nan else str(round(level[0] + jump, 2))

    return {
        "s1": lambda _: str(dice.randint(0, 8)),
        "s2": lambda _: str(dice.randint(-1000, 1000)),
        "s3": lambda _: "NaN" if dice.random() < nan else str(round(dice.gauss(1, 3), 2)),
        "s4": walk,
        "s5": lambda _: dice.choice(("true", "false")),
        "s6": lambda _: f"'{dice.choice(WORDS)}'",
        "s7": lambda _: f"'{dice.choice(WORDS)}'",
        "s9": lambda _: f"'2024-0{dice.randint(1, 9)}-1{dice.randint(0, 9)}'",
        "s10": lambda _: str(START + dice.randint(0, 99) * 1000),
    }


def periodic(dice: random.Random) -> dict[str, Values]:
    """Return values that repeat, with noise in the decimals."""
    period = dice.choice((6, 8, 10))
    return {
        "s1": lambda index: str(index % period),
        "s2": lambda index: str(100 * (index % period) - index),
        "s3": lambda index: str(round(3 * math.sin(2 * math.pi * index / period), 2)),
        "s4": lambda index: str(round(5 * math.sin(2 * math.pi * index / period) + dice.gauss(0, 0.3), 3)),
    }
