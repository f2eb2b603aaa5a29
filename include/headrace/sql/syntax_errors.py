"""Messages for text that does not match the grammar."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from headrace.errors import SqlSyntaxError
from headrace.model.spans import Span
from headrace.sql.lexical_rules import LexicalRules

MIN_SIMILARITY = 0.77
"""Minimum similarity (0 to 1) of a word to a keyword it misspells. Lower values match names, higher ones miss misspellings."""


def unexpected_token(text: str, span: Span, expected: Iterable[str], *, hint: str = "") -> SqlSyntaxError:
    """Return the error for the text at `span`, where something else was expected. An empty span is the end of the statement."""
    unexpected = text[span.start : span.end]
    choices = list(dict.fromkeys(expected))
    what = f"unexpected {_quote_text(unexpected)}" if unexpected else "the statement ends too early"
    error = SqlSyntaxError(
        f"{what}; {_expected_text(choices)}" if choices else what,
        hint=hint or spelling_hint(unexpected, choices),
        span=span,
        sql=text,
    )
    error.expected = tuple(choices)
    return error


def likely_intended(word: str, expected: Sequence[str]) -> str | None:
    """Return the expected phrase whose first keyword `word` likely misspells, or None."""
    keywords = {
        choice.split()[0]: choice for choice in expected if choice.isupper() and _is_similar_length(word, choice.split()[0])
    }
    close = difflib.get_close_matches(word.upper(), keywords, n=1, cutoff=MIN_SIMILARITY)
    close = close or [keyword for keyword in keywords if sorted(keyword) == sorted(word.upper())]
    return keywords[close[0]] if close else None


def _is_similar_length(word: str, keyword: str) -> bool:
    return abs(len(word) - len(keyword)) <= max(1, len(keyword) // 3)


def spelling_hint(word: str, expected: Sequence[str]) -> str:
    keyword = likely_intended(word, expected) if word else None
    return f"write {keyword} instead of {word}" if keyword else ""


def name_hint(lexical_rules: LexicalRules, text: str, expected: Sequence[str]) -> str:
    if text[:1] in ("'", '"'):
        return f"write names in backquotes: `{lexical_rules.unquote(text)}`"
    if not text[:1].isalnum() or likely_intended(text, expected):
        return ""
    if text.upper() in lexical_rules.reserved:
        return f"{text.upper()} is a reserved word; as a name write `{text}`"
    return f"as a name write `{text}`"


def _quote_text(text: str) -> str:
    line = text.partition("\n")[0]
    short = line if len(text) <= 40 else f"{line[:40]}…"
    return short if short.startswith(("'", '"', "`")) else f'"{short}"'


def _expected_text(expected: Sequence[str]) -> str:
    choices = [choice if choice[0].isalnum() else f'"{choice}"' for choice in expected]
    return f"expected {choices[0]}" if len(choices) == 1 else f"expected one of {', '.join(choices)}"
