"""Regular expressions of POSIX, as the C library accepts them."""

from __future__ import annotations

import ctypes
import random
import sys

import pytest

from headrace.compute.tdengine.patterns import PatternError, posix_regex

PARTS = (
    *("a", "b", ".", "*", "+", "?", "|", "(", ")", "[", "]", "^", "$", "\\", "{", "}", "1", ",", "-", "é", " ", "_"),
    *("[:digit:]", "[[:upper:]]", "[^[:alnum:]]", "[[:foo:]]", "[[=a=]]", "[[.-.]]", "[a-c]", "[^b]", "[z-a]", "[]a]"),
    *("\\w", "\\S", "\\b", "\\<", "\\.", "\\(", "\\1", "{2}", "{1,}", "{,3}", "{2,1}", "(a)"),
)
EXTENDED, NO_GROUPS = 1, 8


def is_accepted(pattern: str) -> bool:
    try:
        posix_regex(pattern)
    except PatternError:
        return False
    return True


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="GNU's C library")
def test_patterns_are_valid_if_the_c_library_accepts_them() -> None:
    library, dice = ctypes.CDLL(None), random.Random(1)
    wrong = []
    for _ in range(5_000):
        pattern = "".join(dice.choice(PARTS) for _ in range(dice.randint(1, 6)))
        compiled = ctypes.create_string_buffer(1_024)
        is_valid = library.regcomp(compiled, pattern.encode(), EXTENDED | NO_GROUPS) == 0
        if is_valid:
            library.regfree(compiled)
        if is_valid != is_accepted(pattern):
            wrong.append(pattern)
    assert wrong == []
