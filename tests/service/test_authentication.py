"""Who comes in: users with their passwords."""

from __future__ import annotations

import logging

import pytest

import headrace
from headrace.errors import AuthenticationError
from headrace.model.connections import Origin
from headrace.runtime.passwords import FREE_TRIES, MAX_PAUSE_SECONDS, hash_password, is_password, pause_seconds
from headrace.service.authentication import authenticator

HERE = Origin("python")


def test_only_the_right_password_of_a_user_lets_in(connection: headrace.Connection, caplog: pytest.LogCaptureFixture) -> None:
    context = connection.session.context
    context.catalog.access.create_user("vera", hash_password("secret12"))
    authenticate = authenticator(context)
    assert authenticate("vera", "secret12", HERE).name == "vera"
    with caplog.at_level(logging.WARNING):
        for user, password in (("vera", "secret13"), ("vera", ""), ("nobody", "secret12"), ("root", "")):
            with pytest.raises(AuthenticationError, match="wrong user or password"):
                authenticate(user, password, HERE)
    assert "failed login of user 'vera'" in caplog.text
    assert "secret1" not in caplog.text
    context.catalog.access.change_user("vera", password=hash_password("secret34"))
    assert authenticate("vera", "secret34", HERE).name == "vera"
    context.catalog.access.change_user("vera", is_enabled=False)
    with pytest.raises(AuthenticationError):
        authenticate("vera", "secret34", HERE)


def test_hashes_have_salt_and_nothing_matches_no_hash() -> None:
    first, second = hash_password("secret12"), hash_password("secret12")
    assert first != second
    assert "secret12" not in first
    assert is_password("secret12", second)
    assert not is_password("", "")


def test_tries_are_slowed_down_within_limits() -> None:
    pauses = [pause_seconds(failures) for failures in range(FREE_TRIES + 12)]
    assert pauses[FREE_TRIES - 1] == 0 < pauses[FREE_TRIES]
    assert pauses == sorted(pauses)
    assert pauses[-1] == MAX_PAUSE_SECONDS == pause_seconds(10**9)
