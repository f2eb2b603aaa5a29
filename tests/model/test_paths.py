"""Patterns of paths and of names, against a naive way to match them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.access import may_overlap
from headrace.model.paths import ANY_LEVELS, PathPattern, node_matches, wildcards

nodes = st.lists(st.sampled_from(("a", "ab", "*", "a*", "**")), max_size=4)
LONG = ("root", *(f"n{number}" for number in range(200)))


def matches(pattern: Sequence[str], path: Sequence[str]) -> bool:
    """Match node by node in all ways."""
    if not pattern or not path:
        return not pattern and not path
    if pattern[0] == ANY_LEVELS:
        return any(matches(pattern[1:], path[taken:]) for taken in range(1, len(path) + 1))
    return node_matches(pattern[0], path[0]) and matches(pattern[1:], path[1:])


def matches_text(pattern: str, text: str) -> bool:
    """Match sign by sign in all ways."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(matches_text(pattern[1:], text[taken:]) for taken in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and matches_text(pattern[1:], text[1:])


@given(nodes, st.lists(st.sampled_from(("a", "ab", "b")), max_size=5))
def test_a_path_matches_as_any_of_its_divisions_does(pattern: list[str], path: list[str]) -> None:
    assert PathPattern(tuple(pattern)).matches(path) == matches(pattern, path)


@given(st.text("ab%_", max_size=7), st.text("ab\n", max_size=8))
def test_a_text_matches_as_any_of_its_divisions_does(pattern: str, text: str) -> None:
    assert bool(wildcards(pattern, "%", "_").fullmatch(text)) == matches_text(pattern, text)


@pytest.mark.timeout(60)
def test_no_pattern_takes_long() -> None:
    """Each of these takes longer than anybody lives if all ways are tried."""
    assert not PathPattern(("root", *["**"] * 40, "zz")).matches(LONG)
    assert not may_overlap(("root", *["**"] * 60, "zz"), ("root", *["**"] * 60, "aa"))
    assert not node_matches("a*" * 40 + "b", "a" * 20_000)
    assert not wildcards("%a_" * 40 + "b", "%", "_").fullmatch("a" * 20_000)
