"""How passwords are stored, read and shown."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from headrace import secrets
from headrace.errors import ConfigurationError
from headrace.model.access import administrator
from headrace.settings import Settings, load

KEYS = frozenset({"password"})


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load(home=tmp_path / "home")


def test_a_password_is_encrypted_under_any_prefix_and_can_be_read_again(settings: Settings) -> None:
    typed = {"sink.password": "hunter2", "Connector.password": "", "password": "it's", "sink.ip": "a"}
    stored = secrets.protect(typed, KEYS, settings)
    assert stored["sink.ip"] == "a"
    assert "hunter2" not in json.dumps(stored)
    assert secrets.resolve(stored, KEYS, settings, administrator()) == typed
    assert secrets.hide(stored, KEYS) == dict.fromkeys(("sink.password", "Connector.password", "password"), "******") | {
        "sink.ip": "a"
    }
    assert secrets.hide(stored, frozenset())["password"] == "******"


def test_what_looks_encrypted_is_encrypted_nevertheless(settings: Settings) -> None:
    typed = {"password": "encrypted:abc"}
    assert secrets.resolve(secrets.protect(typed, KEYS, settings), KEYS, settings, administrator()) == typed


def test_the_key_is_made_once_for_its_owner_only(settings: Settings) -> None:
    secrets.encrypt("a", settings)
    path = settings.home_path / "secret.key"
    first = path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    secrets.encrypt("b", settings)
    assert path.read_text() == first
    assert [file.name for file in settings.home_path.iterdir()] == ["secret.key"]


def test_keys_can_be_renewed(settings: Settings) -> None:
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    stored = secrets.encrypt("hunter2", load(home=settings.home, secret_key=old))
    assert secrets.reveal(stored, load(home=settings.home, secret_key=f"{new}, {old}")) == "hunter2"
    with pytest.raises(ConfigurationError, match="encrypted with another key"):
        secrets.reveal(stored, load(home=settings.home, secret_key=new))
    assert not (settings.home_path / "secret.key").exists()


def test_without_a_key_nothing_is_read(settings: Settings, tmp_path: Path) -> None:
    stored = secrets.encrypt("hunter2", settings)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        secrets.reveal(stored, load(home=tmp_path / "other"))
    assert not (tmp_path / "other").exists()
    with pytest.raises(ConfigurationError, match="not a Fernet key") as caught:
        secrets.encrypt("hunter2", load(home=settings.home, secret_key="short"))
    assert "short" not in str(caught.value)


def test_a_secret_is_read_from_the_environment(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = {"sink.password": "secret:plant_1"}
    assert secrets.protect(typed, KEYS, settings) == typed
    assert secrets.hide(typed, KEYS) == typed
    with pytest.raises(ConfigurationError, match="secret plant_1 is not set") as caught:
        secrets.resolve(typed, KEYS, settings, administrator())
    assert "HEADRACE_SECRET_PLANT_1" in caught.value.hint
    monkeypatch.setenv("HEADRACE_SECRET_PLANT_1", "hunter2")
    assert secrets.resolve(typed, KEYS, settings, administrator()) == {"sink.password": "hunter2"}


def test_the_key_itself_is_no_secret_that_can_be_sent(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_SECRET_KEY", Fernet.generate_key().decode())
    with pytest.raises(ConfigurationError, match="cannot have the name key"):
        secrets.reveal("secret:key", settings)


@pytest.mark.parametrize(
    "connection", ["iotdb://root:hunter%322@db:6667/x", '{"conn_type": "iotdb", "login": "root", "password": "hunter22"}']
)
def test_a_password_is_that_of_a_connection_of_airflow(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, connection: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_PLANT", connection)
    assert secrets.reveal("airflow:plant", settings) == "hunter22"


def test_a_connection_without_a_password_is_an_error(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_PLANT", "iotdb://db:6667")
    with pytest.raises(ConfigurationError, match="has no password"):
        secrets.reveal("airflow:plant", settings)


def test_secrets_are_taken_out_of_texts() -> None:
    clear = {"sink.password": "hunter2", "password": "hunter22", "ip": "a"}
    assert (
        secrets.hide_values("login of a with hunter22 or hunter2 failed", clear, KEYS) == "login of a with ****** or ****** failed"
    )
