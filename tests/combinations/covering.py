"""Covering arrays: few combinations in which every t values that may stand together do so."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Final

Combination = Mapping[str, str]
Dimensions = Mapping[str, Sequence[str]]
Predicate = Callable[[Combination], bool]
Part = tuple[tuple[str, str], ...]

CANDIDATES: Final = 3
"""Combinations that are tried for each that is taken."""


@dataclass(frozen=True)
class Rule:
    """Combinations that are refused, and a part of the message that says why."""

    forbids: Predicate
    message: str


def covering(dimensions: Dimensions, strength: int, allows: Predicate, seed: int = 0) -> Iterator[dict[str, str]]:
    """Yield allowed combinations until every `strength` values that any allowed combination has together were in one.

    Each starts with values that were not together yet; the other dimensions take, one after the other, the value that adds most.
    """
    dice = random.Random(seed)
    missing = dict.fromkeys(parts(dimensions, strength))
    while missing:
        target = next(iter(missing))
        candidates = [completed(dimensions, target, strength, missing, allows, dice) for _ in range(CANDIDATES)]
        possible = [combination for combination in candidates if combination is not None]
        if not possible:
            del missing[target]
            continue
        best = max(possible, key=lambda combination: sum(part in missing for part in parts_of(combination, strength)))
        for part in parts_of(best, strength):
            missing.pop(part, None)
        yield best


def parts(dimensions: Dimensions, strength: int) -> Iterator[Part]:
    for names in combinations(dimensions, strength):
        for values in product(*(dimensions[name] for name in names)):
            yield tuple(zip(names, values, strict=True))


def parts_of(combination: Combination, strength: int) -> Iterator[Part]:
    yield from combinations(combination.items(), strength)


def completed(
    dimensions: Dimensions, part: Part, strength: int, missing: Mapping[Part, None], allows: Predicate, dice: random.Random
) -> dict[str, str] | None:
    """Return an allowed combination with these values, or None if there is none. `allows` also judges incomplete ones."""
    chosen = dict(part)
    if not allows(chosen):
        return None
    open_dimensions = [name for name in dimensions if name not in chosen]
    dice.shuffle(open_dimensions)
    if not fill(dimensions, chosen, open_dimensions, strength, missing, allows, dice):
        return None
    return {name: chosen[name] for name in dimensions}


def fill(
    dimensions: Dimensions,
    chosen: dict[str, str],
    names: Sequence[str],
    strength: int,
    missing: Mapping[Part, None],
    allows: Predicate,
    dice: random.Random,
) -> bool:
    """Choose values of the dimensions `names`, and go back where no value is allowed."""
    if not names:
        return True
    name, rest = names[0], names[1:]
    values = list(dimensions[name])
    dice.shuffle(values)
    position = {key: number for number, key in enumerate(dimensions)}
    others = list(combinations(chosen.items(), strength - 1))

    def gain(value: str) -> int:
        return sum(tuple(sorted((*other, (name, value)), key=lambda item: position[item[0]])) in missing for other in others)

    for value in sorted(values, key=gain, reverse=True):
        chosen[name] = value
        if allows(chosen) and fill(dimensions, chosen, rest, strength, missing, allows, dice):
            return True
        del chosen[name]
    return False


def refused(dimensions: Dimensions, rules: Sequence[Rule], is_expressible: Predicate) -> Iterator[tuple[dict[str, str], Rule]]:
    """Yield for each rule, and each few values that it forbids together, a combination that no other rule forbids."""
    for rule in rules:

        def is_forbidden_by_it_alone(combination: Combination, rule: Rule = rule) -> bool:
            return is_expressible(combination) and not any(other.forbids(combination) for other in rules if other is not rule)

        smallest = next(
            size for size in range(1, len(dimensions)) if any(rule.forbids(dict(part)) for part in parts(dimensions, size))
        )
        for part in parts(dimensions, smallest):
            if rule.forbids(dict(part)):
                dice = random.Random(str(part))
                combination = completed(dimensions, part, 1, {}, is_forbidden_by_it_alone, dice)
                if combination is not None:
                    yield combination, rule
