"""Errors that a client rebuilds from the answers of an snode."""

from __future__ import annotations

import json

from headrace.errors import LimitError, OperationalError
from headrace.runtime import http_limits, snode_client


def test_of_errors_with_one_code_the_most_general_is_rebuilt() -> None:
    assert http_limits.TooSlowError.code == OperationalError.code
    for kind in (OperationalError, LimitError):
        error = snode_client.rebuild_error(json.dumps({"code": kind.code, "message": "no"}).encode())
        assert type(error) is kind
