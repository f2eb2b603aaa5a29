"""The log of statements that change the schema of trees, or rights."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SchemaStatement:
    """A statement of the IoTDB language that has the effect of a change, wherever it is run.

    Attributes:
        category: What it does, as an option of a pipe's `inclusion`, such as `schema.timeseries.ordinary.create`.
        sql: The statement, with full paths, types and encodings.
        database: The tree that it is about; empty if it is about several or none.
        version: The version of the tree's table that precedes the change: rows up to it belong before the statement.
        owner: The user who made the change.
    """

    category: str
    sql: str
    database: str = ""
    version: int = 0
    owner: str = ""


@dataclass(frozen=True, slots=True)
class LoggedStatement:
    """A statement of the log; see `SchemaStatement`.

    Attributes:
        id: Gives the order of the changes. The ids of the log have no gaps.
        time: When it was made (epoch ms). Never less than that of an earlier statement.
    """

    id: int
    time: int
    category: str
    sql: str
    database: str
    version: int
    owner: str
