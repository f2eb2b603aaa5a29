"""No text that is shown or logged has the value of an attribute that a plugin of pipes calls secret."""

from __future__ import annotations

import pytest

from headrace.model.masking import masked
from headrace.pipes.builtin import PLUGINS


@pytest.mark.parametrize("key", sorted({key for plugin in PLUGINS for key in plugin.secrets}))
@pytest.mark.parametrize("prefix", ["", "sink.", "connector.", "source."])
def test_a_secret_of_a_built_in_plugin_is_masked_in_statements(prefix: str, key: str) -> None:
    for quote in ("'", '"'):
        text = f"ALTER PIPE p MODIFY SINK ({quote}{prefix}{key}{quote} = {quote}-----BEGIN S3CRET KEY-----{quote})"
        assert "S3CRET" not in masked(text)


def test_certificates_that_are_public_stay_readable() -> None:
    text = "('sink.ssl.certificate.pem' = 'public', 'sink.ssl.ca.pem' = 'public')"
    assert masked(text) == text
