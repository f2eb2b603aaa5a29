"""The order of many texts."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.streams.sinks.target_groups import distinct_neighbors, text_order

# Few characters, so that texts begin alike, of which one is a zero byte and others have several bytes.
TEXTS = st.lists(st.text("ab\0é語", max_size=12), max_size=60)


@settings(deadline=None)  # the first call imports modules
@given(TEXTS, st.text("aé", max_size=10), st.integers(0, 3))
def test_texts_are_ordered_as_by_their_characters_and_equal_ones_stay_in_order(texts: list[str], prefix: str, first: int) -> None:
    texts = [prefix + text for text in texts]
    order = text_order(pa.array(texts, pa.string()).slice(first))
    texts = texts[first:]
    assert order.to_pylist() == sorted(range(len(texts)), key=texts.__getitem__)


@given(TEXTS)
def test_of_equal_neighbors_one_is_left(texts: list[str]) -> None:
    assert distinct_neighbors(pa.array(sorted(texts), pa.string())).to_pylist() == sorted(set(texts))
