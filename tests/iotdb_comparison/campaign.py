"""A campaign: random cases on both sides, and the differences."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tests.iotdb_comparison.call_explanations import CALL_EXPLANATIONS
from tests.iotdb_comparison.call_series import call_tree
from tests.iotdb_comparison.calls import Calls
from tests.iotdb_comparison.clients import Side
from tests.iotdb_comparison.comparing import difference
from tests.iotdb_comparison.explaining import Evidence, Explanation, explanation
from tests.iotdb_comparison.explanations import EXPLANATIONS
from tests.iotdb_comparison.outcomes import Refusal
from tests.iotdb_comparison.queries import Queries
from tests.iotdb_comparison.statements import Cases
from tests.iotdb_comparison.trees import Tree, tree


@dataclass(frozen=True, slots=True)
class Comparison:
    """A statement on both sides. `difference` is None if the answers are equal."""

    id: str
    statement: str
    refused: bool
    difference: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """What random cases are about.

    `prefix` begins their ids, `tree` makes the series of a seed, `case` a case over them, and `explanations` are the reasons for
    differences.
    """

    prefix: str
    tree: Callable[[int], Tree]
    case: Callable[[random.Random, Tree, int], list[str]]
    explanations: Sequence[Explanation]


QUERIES: Final = Kind("", tree, lambda dice, made, number: Cases(Queries(dice, made), number).case(), EXPLANATIONS)
CALLS: Final = Kind("f", call_tree, lambda dice, made, number: Calls(dice, made, number).case(), CALL_EXPLANATIONS)
KINDS: Final = (QUERIES, CALLS)
MAX_TRIES: Final = 5
BUSY: Final = "Fetch Schema failed"


def cases(seed: int, numbers: Sequence[int], made: Tree, kind: Kind = QUERIES) -> Iterator[tuple[str, list[str]]]:
    """Yield the ids and statements of some cases of a seed. Each depends on its own number only."""
    for number in numbers:
        id_ = f"{kind.prefix}{seed}/{number}"
        yield id_, kind.case(random.Random(f"case {id_}"), made, number)


def prepare(side: Side, statement: str) -> None:
    """Run a statement that both sides have to accept. A server that is busy may fail to look up its own schema."""
    for number in range(1, MAX_TRIES + 1):
        answer = side.execute(statement)
        if not isinstance(answer, Refusal):
            return
        if BUSY not in answer.message or number == MAX_TRIES:
            raise RuntimeError(f"{type(side).__name__} refuses {statement}: {answer.message}")


def play(seed: int, numbers: Sequence[int], ours: Side, theirs: Side, kind: Kind = QUERIES) -> Iterator[Comparison]:
    """Play cases of a seed on both sides."""
    made = kind.tree(seed)
    remove(made, ours, theirs)
    try:
        for statement in [*made.setup, f"create database {made.database}_w"]:
            for side in (ours, theirs):
                prepare(side, statement)
        for id_, statements in cases(seed, numbers, made, kind):
            for number, statement in enumerate(statements):
                result = compare(id_, statement, ours, theirs, kind.explanations, statements[:number])
                yield result
                if result.difference is not None or (result.refused and statement.startswith("insert")):
                    clean_up(statements, ours, theirs)
                    break
    finally:
        remove(made, ours, theirs)


def remove(made: Tree, ours: Side, theirs: Side) -> None:
    """Remove what earlier cases have left: functions on both servers, and series on the one that other runs use, too."""
    for name in made.functions:
        for side in (ours, theirs):
            side.execute(f"drop function {name}")
    for database in (f"{made.database}_w", made.database):
        theirs.execute(f"delete database {database}")
    if made.template:
        theirs.execute(f"drop device template {made.template}")


def clean_up(statements: Sequence[str], ours: Side, theirs: Side) -> None:
    """Drop what a case that ends early has created for the whole server."""
    for statement in statements:
        if statement.startswith(("deactivate", "unset", "drop")):
            for side in (ours, theirs):
                side.execute(statement)


def compare(
    id_: str, statement: str, ours: Side, theirs: Side, explanations: Sequence[Explanation], earlier: Sequence[str]
) -> Comparison:
    """Execute one statement on both sides. What it returns may depend on the earlier ones of its case."""
    mine, other = ours.execute(statement), theirs.execute(statement)
    differs = difference(statement, mine, other)
    reason = None
    if differs is not None:
        evidence = Evidence(statement, mine, other, theirs.execute)
        reason = explanation(explanations, "; ".join((*earlier, statement)), differs, evidence)
    return Comparison(id_, statement, isinstance(other, Refusal), differs, reason)


@dataclass(slots=True)
class Report:
    """Counts, and the differences without a reason."""

    statements: int = 0
    refused: int = 0
    explained: int = 0
    unexplained: int = 0

    def add(self, result: Comparison, tell: Callable[[str], None]) -> None:
        """Count a comparison, and tell an unexplained difference."""
        self.statements += 1
        self.refused += result.refused
        if result.difference is None:
            return
        if result.reason is not None:
            self.explained += 1
            return
        self.unexplained += 1
        tell(f"{result.id}  {result.statement}\n        {result.difference}\n")

    def __str__(self) -> str:
        return (
            f"{self.statements} statements ({self.refused} of them refused by IoTDB): "
            f"{self.unexplained} unexplained and {self.explained} explained differences"
        )
