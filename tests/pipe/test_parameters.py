"""Parameters of plugins, and checks of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.pipe import ParameterError, ParameterValidator, PipeParameters

PARAMETERS = PipeParameters({"sink.url": "http://x", "Source.Limit": "3", "user": "ada", "sink.user": "bob"})


def test_a_key_is_found_with_or_without_a_prefix() -> None:
    for key in ("url", "sink.url", "connector.url", "SINK.url"):
        assert PARAMETERS.has_attribute(key)
        assert PARAMETERS.get_string(key) == "http://x"
    assert PARAMETERS.get_int("Limit") == 3
    assert not PARAMETERS.has_attribute("limit")
    assert not PARAMETERS.has_attribute("other.url")


def test_a_key_as_typed_comes_first() -> None:
    assert PARAMETERS.get_string("sink.user") == "bob"
    assert PARAMETERS.get_string("user") == "ada"


def test_missing_keys_have_a_default() -> None:
    assert PARAMETERS.get_string("missing") is None
    assert PARAMETERS.get_string_or_default("missing", "x") == "x"
    assert PARAMETERS.get_int_or_default("sink.missing", 7) == 7
    assert PARAMETERS.get_string_by_keys("missing", "url") == "http://x"
    assert PARAMETERS.has_any_attributes("missing", "url")


def test_all_parameters_are_returned_as_typed() -> None:
    assert list(PARAMETERS.get_attributes()) == ["Source.Limit", "sink.url", "sink.user", "user"]


def test_a_check_that_holds_returns_the_validator() -> None:
    validator = ParameterValidator(PARAMETERS)
    checked = validator.validate_required_attribute("url").validate_attribute_value_range("missing", True, "a")
    assert checked.validate(lambda limit: limit > 2, "too small", 3) is validator
    assert validator.get_parameters() is PARAMETERS


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda one: one.validate_required_attribute("sink.port"), "attribute sink.port is required"),
        (
            lambda one: one.validate_attribute_value_range("user", False, "a", "b"),
            r"Invalid value ada of user\. The value should be one of \[a, b\]",
        ),
        (lambda one: one.validate(lambda limit: limit > 3, "too small", 3), "too small"),
    ],
)
def test_a_check_that_fails_raises_an_error(check: Callable[[ParameterValidator], object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        check(ParameterValidator(PARAMETERS))
