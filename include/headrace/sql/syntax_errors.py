"""Messages about text that is not what the grammar wants there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from headrace.errors import SyntaxError_
from headrace.model.spans import Span
from headrace.sql.lexis import Lexis

CLOSENESS = 0.65
"""How alike (0 to 1) a word must be to a keyword to be taken for a slip of it. Lower, names are; higher, slips are missed."""


def unexpected_token(text: str, span: Span, expected: Iterable[str], *, hint: str = "") -> SyntaxError_:
    """The error for what stands at `span` (nothing: the end), where only `expected` could."""
    found = text[span.start : span.end]
    wanted = list(dict.fromkeys(expected))
    what = f"unexpected {_shown(found)}" if found else "the statement ends too early"
    return SyntaxError_(f"{what}; {_choice(wanted)}" if wanted else what, hint=hint or rewrite(found, wanted), span=span, sql=text)


def likely_intended(word: str, expected: Sequence[str]) -> str | None:
    """The expected keyword (its first word) for which `word` is likely a slip, or None."""
    keywords = {choice.split()[0]: choice for choice in expected if choice.isupper() and _as_long(word, choice.split()[0])}
    close = difflib.get_close_matches(word.upper(), keywords, n=1, cutoff=CLOSENESS)
    return keywords[close[0]] if close else None


def _as_long(word: str, keyword: str) -> bool:
    return abs(len(word) - len(keyword)) <= max(1, len(keyword) // 3)


def rewrite(found: str, expected: Sequence[str]) -> str:
    """The hint for a misspelt keyword, or nothing."""
    keyword = likely_intended(found, expected) if found else None
    return f"write {keyword} instead of {found}" if keyword else ""


def name_hint(lexis: Lexis, written: str, tried: Sequence[str]) -> str:
    """What to do about a text that stands where a name should; nothing where it is a slip of a keyword."""
    if written[:1] in ("'", '"'):
        return f"names stand in back quotes: `{lexis.unquote(written)}`"
    if not written[:1].isalnum() or likely_intended(written, tried):
        return ""
    if written.upper() in lexis.reserved:
        return f"{written.upper()} is a reserved word; as a name write `{written}`"
    return f"as a name write `{written}`"


def _shown(found: str) -> str:
    line = found.partition("\n")[0]
    shown = line if len(found) <= 40 else f"{line[:40]}…"
    return shown if shown.startswith(("'", '"', "`")) else f'"{shown}"'


def _choice(expected: Sequence[str]) -> str:
    shown = [choice if choice[0].isalnum() else f'"{choice}"' for choice in expected]
    return f"expected {shown[0]}" if len(shown) == 1 else f"expected one of {', '.join(shown)}"
