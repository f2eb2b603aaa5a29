"""Which doors the settings open, and where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.doors.options import DoorOptions, door_options
from headrace.errors import ConfigurationError
from headrace.settings import load


def test_doors_are_closed_by_default(tmp_path: Path) -> None:
    assert door_options(load(home=tmp_path), "iotdb") is None


def test_a_door_that_is_named_is_open_on_this_machine(tmp_path: Path) -> None:
    settings = load(home=tmp_path, doors="flight, TDengine", tdengine_port=7)
    assert door_options(settings, "tdengine") == DoorOptions("127.0.0.1", 7)
    assert door_options(settings, "iotdb") is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"doors": "mysql"}, "there is no door 'mysql'"),
        ({"doors": "iotdb", "door_host": "0.0.0.0"}, "without TLS"),
        ({"doors": "iotdb", "door_host": "plant.example.com"}, "without TLS"),
        ({"doors": "iotdb", "tls_certificate": "c.pem"}, "TLS needs a certificate and its key"),
    ],
)
def test_settings_that_open_no_safe_door_are_rejected(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        door_options(load(home=tmp_path, **settings), "iotdb")


def test_a_door_may_be_open_to_others_with_tls_or_on_request(tmp_path: Path) -> None:
    encrypted = {"tls_certificate": "c.pem", "tls_key": "k.pem"}
    for more in (encrypted, {"doors_without_tls": True}):
        options = door_options(load(home=tmp_path, doors="iotdb", door_host="0.0.0.0", **more), "iotdb")
        assert options is not None
        assert options.uses_tls is (more is encrypted)
