"""Random statements from a grammar that is written as text."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "grammars"
MAX_DEPTH: Final = 5
"""From this depth on, a rule takes its first alternative, which ends soon."""
REFERENCE: Final = re.compile(r"<(\w+)([?+*]?)>")
OPTIONAL_SHARE: Final = 0.3
MAX_REPETITIONS: Final = 3

Rules = Mapping[str, Sequence[str]]


def read_rules(path: Path) -> dict[str, list[str]]:
    """Return the alternatives of each rule: indented lines below the line `rule:`.

    In an alternative, `<rule>` is a text of a rule, `<rule?>` one or none, `<rule+>` a list with commas, `<rule*>` some in a row.
    """
    rules: dict[str, list[str]] = {}
    name = ""
    for line in path.read_text().splitlines():
        if line.startswith("    "):
            rules[name].append(line.strip())
        elif line.endswith(":"):
            name = line.removesuffix(":")
            rules[name] = []
    return rules


@dataclass
class Grammar:
    """Draws texts of rules."""

    rules: Rules
    dice: random.Random

    def text(self, rule: str, depth: int = 0) -> str:
        """Return a random text of a rule."""
        alternatives = self.rules[rule]
        chosen = alternatives[0] if depth > MAX_DEPTH else self.dice.choice(alternatives)
        return REFERENCE.sub(lambda match: self.repeated(match[1], match[2], depth + 1), chosen).replace("ε", "")

    def repeated(self, rule: str, how_often: str, depth: int) -> str:
        match how_often:
            case "?":
                return self.text(rule, depth) if self.dice.random() < OPTIONAL_SHARE else ""
            case "+":
                return ", ".join(self.text(rule, depth) for _ in range(self.dice.randint(1, MAX_REPETITIONS)))
            case "*":
                return " ".join(self.text(rule, depth) for _ in range(self.dice.randrange(MAX_REPETITIONS)))
        return self.text(rule, depth)


TOKEN: Final = re.compile(r"`[^`]*`|'(?:[^'\\]|\\.)*'|\"[^\"]*\"|[\w.]+|\s+|.", re.DOTALL)


def mutated(sql: str, others: Sequence[str], dice: random.Random) -> str:
    """Return a statement with one to three tokens removed, doubled, swapped, or replaced by some of other statements."""
    tokens = [token for token in TOKEN.findall(sql) if not token.isspace()]
    for _ in range(dice.randint(1, 3)):
        at, other = (dice.randrange(len(tokens)) for _ in range(2))
        match dice.randrange(5):
            case 0 if len(tokens) > 1:
                del tokens[at]
            case 1:
                tokens.insert(at, tokens[other])
            case 2:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case _:
                tokens[at] = dice.choice([token for token in TOKEN.findall(dice.choice(others)) if not token.isspace()])
    return " ".join(tokens)
