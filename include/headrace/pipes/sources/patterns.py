"""The patterns of paths that sources have, as IoTDB reads them."""

from __future__ import annotations

import re
from typing import Final

from headrace.model.paths import ROOT, PathPattern, parse_path, quote_node, split_path, unquote_node
from headrace.pipes.attributes import PipeAttributes, pipe_error
from headrace.pipes.selection import Pattern, PrefixPattern, TreePattern

PREFIX: Final = "prefix"
IOTDB: Final = "iotdb"
_QUOTED: Final = re.compile(r"`(?:[^`]|``)+`")
_PLAIN_OR_WILDCARD: Final = re.compile(r"[\w*\u2E80-\u9FFF]+")


def pattern_of(attributes: PipeAttributes) -> Pattern:
    """Return the pattern of a source: its `path`, else its `pattern` in the format that it names, else all series.

    Raises:
        ProgrammingError: It is not legal.
    """
    path, text = attributes.first("extractor.path", "source.path"), attributes.first("extractor.pattern", "source.pattern")
    form = attributes.choice("extractor.pattern.format", "source.pattern.format", options=(PREFIX, IOTDB), default=PREFIX)
    if path is not None:
        return iotdb_pattern(path)
    if text is not None and form == IOTDB:
        return iotdb_pattern(text)
    return PrefixPattern(ROOT) if text is None else prefix_pattern(text)


def prefix_pattern(text: str) -> PrefixPattern:
    """Return the pattern of the paths that begin with a text, which is a path whose last node may be incomplete."""
    if not _is_prefix(text):
        hint = "a pattern begins with root and is a path, whose last node may be incomplete"
        raise pipe_error(f"Pattern \"PrefixPipePattern{{pattern='{text}'}}\" is illegal.", hint=hint)
    return PrefixPattern(text)


def _is_prefix(text: str) -> bool:
    if text in (ROOT, f"{ROOT}.") or parse_path(text) is not None:
        return text.startswith(ROOT)
    before, _, last = text.rpartition(".")
    return (not last or last.isdigit()) and (before == ROOT or parse_path(before) is not None)


def iotdb_pattern(text: str) -> TreePattern:
    """Return a pattern with wildcards for whole nodes (`*`, `**`), and `*` for parts of one."""
    nodes = split_path(text)
    if not nodes or nodes[0] != ROOT or ".".join(nodes) != text or not all(map(_is_node, nodes)):
        hint = "write a path that begins with root, such as root.plant.**"
        raise pipe_error(f"Illegal IoTDBPipePattern: {text}", hint=hint)
    return TreePattern(PathPattern((ROOT, *map(_canonical, nodes[1:]))))


def _is_node(node: str) -> bool:
    return bool(_QUOTED.fullmatch(node) or _PLAIN_OR_WILDCARD.fullmatch(node)) and not ("**" in node and node != "**")


def _canonical(node: str) -> str:
    return node if "*" in node and not node.startswith("`") else quote_node(unquote_node(node))


def has_only_prefix(pattern: Pattern) -> bool:
    """Return whether a pattern is a path, or one followed by `**`, as deletions need it."""
    if isinstance(pattern, PrefixPattern):
        return True
    if not isinstance(pattern, TreePattern):
        return False
    nodes = pattern.pattern.nodes
    return not PathPattern(nodes[:-1] if nodes[-1] == "**" else nodes).has_wildcard
