"""What is hidden in texts."""

from __future__ import annotations

import pytest

from headrace.model.masking import masked


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("notify ('ws://u:p@h:1/a?b=c', 'wss://h') on", "notify ('ws://****h:1/*****', 'wss://h') on"),
        ("does not answer: WS://h?token=1 (x)", "does not answer: WS://h******** (x)"),
        ("select 'http://h/a'", "select 'http://h/a'"),
        ("NOTIFY('https://u:p@h:1/a?b=c')", "NOTIFY('https://****h:1/*****')"),
    ],
)
def test_of_an_address_only_the_host_is_shown(text: str, shown: str) -> None:
    assert masked(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("('sink.password' = 'it''s', 'ip'='a')", "('sink.password' = '*****', 'ip'='a')"),
        ("""("ssl.trust-store-pwd"="x""y")""", """("ssl.trust-store-pwd"="****")"""),
        ("('Sasl.JAAS.config'='user a password b')", "('Sasl.JAAS.config'='*****************')"),
        ("('password'='not closed", "('password'='**********"),
        ("('password'='secret:NAME', 'api-key'='secret: a')", "('password'='secret:NAME', 'api-key'='*********')"),
    ],
)
def test_passwords_among_attributes_are_hidden(text: str, shown: str) -> None:
    assert masked(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("create user vera 'it''s'", "create user vera '*****'"),
        ('ALTER /* a */ USER `a b` SET PASSWORD "x y";', 'ALTER /* a */ USER `a b` SET PASSWORD "***";'),
        ("create user vera pass 'not closed", "create user vera pass '**********"),
        ("create--a\n/**/user b '-- c', '/*'", "create--a\n/**/user b '****', '**'"),
        ("create user a 'b' /* not closed 'c'", "create user a '*' /* not closed '*'"),
        ("select 'user' from create_user", "select 'user' from create_user"),
    ],
)
def test_passwords_of_users_are_hidden(text: str, shown: str) -> None:
    assert masked(text) == shown


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text", ["CREATE" + "/**/" * 5_000 + "X", "CREATE/*" * 20_000, "CREATE--" * 20_000, "create " * 20_000 + "'"]
)
def test_no_text_takes_long(text: str) -> None:
    assert masked(text) == text
