"""What functions make of texts, remembered in bounded memory."""

from __future__ import annotations

from headrace.model.remembering import MAX_LENGTH, remembered


def test_short_texts_are_remembered_and_long_ones_are_not() -> None:
    asked = []

    @remembered(2)
    def size(text: str) -> int:
        """Return the size."""
        asked.append(len(text))
        return len(text)

    for length in (1, 1, MAX_LENGTH, MAX_LENGTH, MAX_LENGTH + 1, MAX_LENGTH + 1, 1, 2, MAX_LENGTH):
        assert size("x" * length) == length
    assert asked == [1, MAX_LENGTH, MAX_LENGTH + 1, MAX_LENGTH + 1, 2, MAX_LENGTH]
    assert size.__doc__ == "Return the size."
