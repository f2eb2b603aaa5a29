"""Paths of a tree of devices: `root.plant.line1.temperature`, and patterns with wildcards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from headrace.model.spans import Span

ROOT: Final = "root"
ANY_LEVELS: Final = "**"

RESERVED_NODES: Final = frozenset({"ROOT", "TIME", "TIMESTAMP"})
"""Names of nodes that need back-quotes although their characters do not, in upper case."""

_PLAIN_NODE: Final = re.compile(r"(?![0-9]+(?:e[0-9]+)?$)[A-Za-z0-9_\u2E80-\u9FFF]+", re.IGNORECASE)
_NODE: Final = re.compile(r"`(?:[^`]|``)*`|[^.`]+")


def quote_node(name: str) -> str:
    """Return a node in its canonical spelling: in back-quotes only if it needs them."""
    return name if _PLAIN_NODE.fullmatch(name) and name.upper() not in RESERVED_NODES else "`" + name.replace("`", "``") + "`"


def unquote_node(node: str) -> str:
    """Return the name that a node's canonical spelling denotes."""
    return node[1:-1].replace("``", "`") if node.startswith("`") else node


def split_path(path: str) -> tuple[str, ...]:
    """Split a dotted path of canonical nodes."""
    return tuple(_NODE.findall(path))


def split_prefix(prefix: str) -> tuple[tuple[str, ...], str]:
    """Split the beginning of a dotted path into its complete nodes, and what there is of the last one: nothing after a dot."""
    nodes = split_path(prefix)
    return (nodes, "") if not nodes or prefix.endswith(".") else (nodes[:-1], nodes[-1])


def parse_path(text: str) -> tuple[str, ...] | None:
    """Return the canonical nodes of a path as a user writes it, without wildcards; None if it is not one."""
    written = split_path(text)
    if join_path(written) != text or written[:1] != (ROOT,):
        return None
    nodes = tuple(quote_node(unquote_node(node)) for node in written[1:])
    is_plain = all(node.startswith("`") or node == canonical for node, canonical in zip(written[1:], nodes, strict=True))
    return (ROOT, *nodes) if is_plain else None


def join_path(nodes: Iterable[str]) -> str:
    """Join canonical nodes to a dotted path."""
    return ".".join(nodes)


def is_path(name: str) -> bool:
    """Return whether the name of a database is a path, as those of the IoTDB language are."""
    return name.startswith(f"{ROOT}.")


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A path whose nodes, in canonical spelling, may be wildcards.

    `*` matches one node, also as part of one (`s*`); `**` matches one or more nodes. A node in back-quotes is never a wildcard.
    """

    nodes: tuple[str, ...]
    span: Span | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return join_path(self.nodes)

    @property
    def has_wildcard(self) -> bool:
        """Whether it may match more than one path."""
        return any("*" in node and not node.startswith("`") for node in self.nodes)

    @property
    def literal_prefix(self) -> tuple[str, ...]:
        """Nodes before the first wildcard."""
        first = next((at for at, node in enumerate(self.nodes) if "*" in node and not node.startswith("`")), len(self.nodes))
        return self.nodes[:first]

    def concat(self, suffix: PathPattern) -> PathPattern:
        """Return the pattern of a suffix below this prefix."""
        return PathPattern(self.nodes + suffix.nodes, suffix.span)

    def matches(self, path: Sequence[str]) -> bool:
        """Return whether a path of canonical nodes matches as a whole."""
        states: States = frozenset((0,))
        for node in path:
            states = advance(self.nodes, states, node)
        return len(self.nodes) in states


States = frozenset[int]
"""How many nodes of a pattern may have been matched."""


def advance(pattern: Sequence[str], states: States, name: str) -> States:
    """Return how many nodes of a pattern may have been matched after one more node of a path."""
    following: set[int] = set()
    for state in states:
        if state == len(pattern):
            continue
        if pattern[state] == ANY_LEVELS:
            following |= {state, state + 1}
        elif node_matches(pattern[state], name):
            following.add(state + 1)
    return frozenset(following)


def node_matches(pattern: str, node: str) -> bool:
    """Return whether a node matches a node of a pattern that is not `**`."""
    if "*" not in pattern or pattern.startswith("`"):
        return pattern == node
    return wildcards(pattern, "*").fullmatch(unquote_node(node)) is not None


@lru_cache(1024)
def wildcards(pattern: str, many: str, one: str = "") -> re.Pattern[str]:
    """Return what matches a text whose wildcards are `many` for any characters, and `one` for one.

    A part between two wildcards is taken where it first occurs, and never given back, so that no pattern takes long.
    """
    first, *others = ("".join("." if sign == one else re.escape(sign) for sign in part) for part in pattern.split(many))
    if not others:
        return re.compile(first, re.DOTALL)
    middle = "".join(f"(?>.*?{part})" for part in others[:-1])
    return re.compile(f"{first}{middle}.*{others[-1]}", re.DOTALL)
