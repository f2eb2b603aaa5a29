"""Secrets among the settings: passed to child processes, never shown."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.errors import ConfigurationError
from headrace.model.masking import mask_secrets
from headrace.runtime.airflow_settings import settings_environment
from headrace.settings import Settings, load

TOKEN = "t0ken"
PASSWORD = "pa55word"


@pytest.fixture
def secretive(tmp_path: Path) -> Settings:
    url = f"postgresql://headrace:{PASSWORD}@db/headrace"
    return load(home=tmp_path, http_token=TOKEN, http_read_token=TOKEN, airflow_password=PASSWORD, catalog_url=url)


def test_a_child_process_gets_the_token_itself(secretive: Settings) -> None:
    script = "from headrace.settings import load; print(load().http_token.reveal())"
    child = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | settings_environment(secretive), capture_output=True, text=True, check=True
    )
    assert child.stdout.strip() == TOKEN
    assert not any(name.startswith("HEADRACE_AIRFLOW_") for name in settings_environment(secretive))


def test_no_secret_is_shown(secretive: Settings) -> None:
    display_values = secretive.display_values()
    assert not any(secret in value for value in display_values.values() for secret in (TOKEN, PASSWORD))
    assert display_values["catalog_url"] == "postgresql://headrace:***@db/headrace"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql:///h?host=/run&password=x&user=u", "postgresql:///h?host=/run&password=***&user=u"),
        ("postgresql://u:p@ss@db/h", "postgresql://u:***@db/h"),
        ("s3://bucket/a?access_key=x", "s3://bucket/a?access_key=***"),
        ("sqlite:////srv/data/catalog.db", "sqlite:////srv/data/catalog.db"),
        ("/plain:path/with@sign", "/plain:path/with@sign"),
    ],
)
def test_the_password_of_a_url_is_masked(url: str, expected: str) -> None:
    assert mask_secrets(url) == expected


def test_the_snode_for_queries_is_asked_before_the_one_with_streams() -> None:
    assert load(snode="a").own_snodes == load(snode="a", query_snode="a").own_snodes == ("a",)
    assert load(snode="a", query_snode="queries").own_snodes == ("queries", "a")


def test_a_home_that_cannot_be_created_is_named() -> None:
    with pytest.raises(ConfigurationError, match="the folder /proc/x cannot be created"):
        load(home="/proc/x").create_home()


def test_a_door_that_does_not_exist_is_an_error_before_anything_starts() -> None:
    with pytest.raises(ConfigurationError, match="there is no door 'tdengin'"):
        load(doors="tdengin")
