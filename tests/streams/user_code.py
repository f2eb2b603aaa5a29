"""Users' aggregates for tests of streams, as TDengine's Python functions: `squares` and `rises`."""

from __future__ import annotations

from typing import Final

from headrace.code.artifacts import ArtifactStore
from headrace.model.functions import FunctionKind, RegisteredFunction
from tests.streams.environment import StreamEnvironment

COMMON: Final = """
import pickle

def init(): pass
def destroy(): pass
"""
SQUARES: Final = """
def start():
    return pickle.dumps((0, 0))

def reduce(block, buf):
    total, nulls = pickle.loads(buf)
    values = [block.data(row, 0) for row in range(block.shape()[0])]
    return pickle.dumps((total + sum(value * value for value in values if value is not None), nulls + values.count(None)))

def finish(buf):
    total, nulls = pickle.loads(buf)
    return total + nulls / 1000
"""
RISES: Final = """
def start():
    return pickle.dumps((None, 0))

def reduce(block, buf):
    before, count = pickle.loads(buf)
    for row in range(block.shape()[0]):
        value = block.data(row, 0)
        if value is not None:
            count += before is not None and value > before
            before = value
    return pickle.dumps((before, count))

def finish(buf):
    return pickle.loads(buf)[1]
"""


def register_aggregates(env: StreamEnvironment) -> None:
    """Register both.

    `squares` is the sum of squares, and a thousandth for each NULL; `rises` how often a value is greater than the one before.
    """
    for name, code, type_ in (("squares", SQUARES, "DOUBLE"), ("rises", RISES, "BIGINT")):
        artifact = ArtifactStore.of(env.context.settings).put(f"{name}.py", (COMMON + code).encode())
        env.catalog.functions.create(
            RegisteredFunction(
                name,
                name,
                dialect="tdengine",
                kind=FunctionKind.UDAF,
                artifact=artifact,
                owner="vera",
                output_type=type_,
                buffer_size=1000,
            )
        )
