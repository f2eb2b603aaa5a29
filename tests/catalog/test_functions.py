"""Registered functions in the catalog."""

from __future__ import annotations

import pytest

from headrace.catalog import Catalog
from headrace.errors import ExistsError, NotFoundError
from headrace.model.functions import RegisteredFunction

SPLIT = RegisteredFunction("SPLIT", "a.Split")


def test_functions_are_listed_by_name_until_they_are_dropped(catalog: Catalog) -> None:
    catalog.functions.create(SPLIT)
    catalog.functions.create(RegisteredFunction("MATCH", "a.Match"))
    assert catalog.functions.all() == [RegisteredFunction("MATCH", "a.Match"), SPLIT]
    catalog.functions.drop("MATCH")
    assert catalog.functions.all() == [SPLIT]


def test_a_function_is_created_and_dropped_once(catalog: Catalog) -> None:
    catalog.functions.create(SPLIT)
    with pytest.raises(ExistsError, match=r"SPLIT.*has been created"):
        catalog.functions.create(RegisteredFunction("SPLIT", "a.Other"))
    assert catalog.functions.all() == [SPLIT]
    catalog.functions.drop("SPLIT")
    with pytest.raises(NotFoundError, match=r"SPLIT.*has not been created"):
        catalog.functions.drop("SPLIT")
