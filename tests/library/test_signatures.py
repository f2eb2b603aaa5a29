"""The names of functions in queries are those of the reference, and lead to their classes."""

from __future__ import annotations

import re
from typing import Final

import pytest

from headrace.compute.iotdb.library import TEXT_FUNCTIONS
from headrace.library import IOTDB_LIBRARY, find_class
from headrace.library.signatures import SIGNATURES, Signature
from headrace.udf import UDAF
from tests.library.examples import ENTRY, PAGE

PAGE_TEXT: Final = PAGE.read_text()
ATTRIBUTE: Final = re.compile(r"^- `([\w, ]+)`(?: \(|: )", re.MULTILINE)
AGGREGATES: Final = {name: signature for name, signature in SIGNATURES.items() if signature.inputs is not None}


def test_the_reference_has_every_function_under_its_name() -> None:
    documented = {name: class_name for name, class_name, _ in ENTRY.findall(PAGE_TEXT)}
    texts = {function.name: class_name for class_name, function in TEXT_FUNCTIONS.items()}
    assert documented == {name: IOTDB_LIBRARY + signature.class_name for name, signature in SIGNATURES.items()} | texts


@pytest.mark.parametrize("signature", SIGNATURES.values(), ids=SIGNATURES.keys())
def test_a_name_leads_to_its_class(signature: Signature) -> None:
    class_ = find_class(IOTDB_LIBRARY + signature.class_name)
    assert class_ is not None
    assert issubclass(class_, UDAF) == signature.is_aggregate


@pytest.mark.parametrize("name", AGGREGATES)
def test_parameters_are_in_the_order_of_the_reference(name: str) -> None:
    (text,) = (text for entry, _, text in ENTRY.findall(PAGE_TEXT) if entry == name)
    names = tuple(word for attribute in ATTRIBUTE.findall(text) for word in attribute.split(", "))
    assert AGGREGATES[name].attributes == names
