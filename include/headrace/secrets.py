"""Passwords in the catalog: encrypted, or as references to where they are.

The keys of secrets have no prefix, while those of attributes are as they were typed.

A secret is stored in one of three forms. `encrypted:…` is a value that was typed, encrypted with the setting `secret_key` or,
without it, with the key in the file `secret.key` of the home. `secret:NAME` refers to the environment variable
`HEADRACE_SECRET_NAME`, and `airflow:ID` to the password of a connection of Airflow; both are read in the process that uses them.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import sys
from collections.abc import Collection, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from headrace import durable
from headrace.errors import ConfigurationError, PermissionDeniedError
from headrace.model.access import Permissions, Privilege
from headrace.model.masking import REFERENCE
from headrace.model.pipes import HIDDEN_VALUE, without_prefix

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

    from headrace.settings import Settings

ENCRYPTED: Final = "encrypted:"
SECRET: Final = "secret:"
AIRFLOW: Final = "airflow:"
KEY_FILE: Final = "secret.key"
NAME: Final = re.compile(r"\w+", re.ASCII)
RESERVED_NAMES: Final = frozenset({"KEY"})
"""Names whose variables are settings."""


def is_secret(key: str, keys: Collection[str]) -> bool:
    """Return whether a key as it was typed, perhaps with a prefix such as `sink.`, is one of some keys without prefix."""
    return key in keys or without_prefix(key) in keys


def is_reference(value: str) -> bool:
    """Return whether a value refers to a secret, rather than be one."""
    return REFERENCE.fullmatch(value) is not None


def encrypt(value: str, settings: Settings) -> str:
    """Return a secret as it is stored."""
    return ENCRYPTED + _cipher(settings, creates=True).encrypt(value.encode()).decode()


def protect(attributes: Mapping[str, str], keys: Collection[str], settings: Settings) -> dict[str, str]:
    """Return typed attributes as they are stored: the values of some keys are encrypted, unless they are references."""
    return {
        key: encrypt(value, settings) if is_secret(key, keys) and not is_reference(value) else value
        for key, value in attributes.items()
    }


def check_references(attributes: Mapping[str, str], keys: Collection[str]) -> None:
    """Raise `ConfigurationError` for a reference that can refer to nothing."""
    for key, value in attributes.items():
        if is_secret(key, keys) and is_reference(value) and value.startswith(SECRET):
            _variable_of(value.removeprefix(SECRET))


def is_encrypted(value: str) -> bool:
    """Return whether a value is a secret that was typed, as it is stored."""
    return value.startswith(ENCRYPTED)


def references(attributes: Mapping[str, str], keys: Collection[str]) -> tuple[str, ...]:
    """Return the references among the values of some keys."""
    return tuple(value for key, value in attributes.items() if is_secret(key, keys) and is_reference(value))


def resolve(attributes: Mapping[str, str], keys: Collection[str], settings: Settings, permissions: Permissions) -> dict[str, str]:
    """Return stored attributes with the values of some keys in clear, for a user with some permissions.

    Raises:
        PermissionDeniedError: The user may not use a secret that one refers to.
        ConfigurationError: A secret cannot be decrypted here, or what it refers to is not here.
    """
    for reference in references(attributes, keys):
        if not permissions.allows_secret(reference):
            message = f"No permissions for this operation, please add privilege {Privilege.USE_SECRET} on {reference}"
            raise PermissionDeniedError(message, hint=f"root can GRANT {Privilege.USE_SECRET} ON '{reference}' TO USER …")
    return {key: reveal(value, settings) if is_secret(key, keys) else value for key, value in attributes.items()}


def reveal(value: str, settings: Settings) -> str:
    """Return a stored secret in clear; a value of none of the three forms is returned as it is.

    Raises:
        ConfigurationError: It cannot be decrypted here, or what it refers to is not here.
    """
    if value.startswith(ENCRYPTED):
        return _decrypt(value.removeprefix(ENCRYPTED), settings)
    if not is_reference(value):
        return value
    if value.startswith(SECRET):
        return _read_variable(value.removeprefix(SECRET))
    return _read_connection(value.removeprefix(AIRFLOW))


def hide(attributes: Mapping[str, str], keys: Collection[str]) -> dict[str, str]:
    """Return attributes as they are shown: of secrets, only references are."""
    return {key: HIDDEN_VALUE if _is_hidden(key, value, keys) else value for key, value in attributes.items()}


def hide_values(text: str, attributes: Mapping[str, str], keys: Collection[str]) -> str:
    """Return a text without the secrets among some attributes, which are in clear."""
    secrets = {value for key, value in attributes.items() if value and is_secret(key, keys)}
    for value in sorted(secrets, key=len, reverse=True):
        text = text.replace(value, HIDDEN_VALUE)
    return text


def _is_hidden(key: str, value: str, keys: Collection[str]) -> bool:
    return value.startswith(ENCRYPTED) or (is_secret(key, keys) and not is_reference(value))


def _decrypt(token: str, settings: Settings) -> str:
    from cryptography.fernet import InvalidToken

    try:
        return _cipher(settings).decrypt(token.encode()).decode()
    except InvalidToken:
        raise ConfigurationError(
            "a stored password was encrypted with another key",
            hint="set HEADRACE_SECRET_KEY to the same keys in all processes, or state the password again",
        ) from None


def signing_keys(purpose: str, settings: Settings) -> list[bytes]:
    """Return keys for signatures of one purpose, of which the first signs. They cannot decrypt secrets.

    Raises:
        ConfigurationError: The key can be neither read nor made.
    """
    return [hmac.digest(key.encode(), purpose.encode(), "sha256") for key in _keys(settings, creates=True)]


def _keys(settings: Settings, *, creates: bool) -> list[str]:
    text = settings.secret_key.reveal() or _read_key(settings, creates=creates)
    return [key.strip() for key in text.split(",")]


def _cipher(settings: Settings, *, creates: bool = False) -> MultiFernet:
    """Return what encrypts with the first key, and decrypts with all."""
    from cryptography.fernet import Fernet, MultiFernet

    keys = _keys(settings, creates=creates)
    try:
        return MultiFernet([Fernet(key) for key in keys])
    except ValueError:
        raise ConfigurationError(
            "the key for passwords is not a Fernet key",
            hint="make one with cryptography.fernet.Fernet.generate_key(), and set HEADRACE_SECRET_KEY; separate several by commas",
        ) from None


def _read_key(settings: Settings, *, creates: bool) -> str:
    path = settings.home_path / KEY_FILE
    try:
        if creates and not path.exists():
            settings.create_home()
            _create_key(path)
        return path.read_text()
    except OSError as error:
        raise ConfigurationError(
            f"the key for passwords cannot be read: {error}",
            hint="set HEADRACE_SECRET_KEY to the key of the process that stored them",
        ) from None


def _create_key(path: Path) -> None:
    """Create the file of the key, which only its owner can read. If another process does so at the same time, its key stays."""
    from cryptography.fernet import Fernet

    with suppress(FileExistsError):
        durable.create(path, Fernet.generate_key(), mode=0o600)


def _variable_of(name: str) -> str:
    if not NAME.fullmatch(name) or name.upper() in RESERVED_NAMES:
        raise ConfigurationError(f"a secret cannot have the name {name}", hint="use letters, digits and underscores")
    return f"HEADRACE_SECRET_{name.upper()}"


def _read_variable(name: str) -> str:
    variable = _variable_of(name)
    value = os.environ.get(variable)
    if value is None:
        raise ConfigurationError(f"secret {name} is not set", hint=f"set {variable} for the snode's driver")
    return value


def _read_connection(id: str) -> str:
    """Return the password of a connection of Airflow: from the environment, or in processes of Airflow from Airflow."""
    variable = f"AIRFLOW_CONN_{id.upper()}"
    text = os.environ.get(variable)
    if text is not None:
        password = _password_of(text)
    elif "airflow" in sys.modules:
        password = _ask_airflow(id)
    else:
        hint = f"set {variable} for the snode's driver, to the connection's URI or JSON"
        raise ConfigurationError(f"connection {id} of Airflow is not known here", hint=hint)
    if not password:
        raise ConfigurationError(f"connection {id} of Airflow has no password", hint="add one, or name another connection")
    return password


def _password_of(connection: str) -> str:
    """Return the password of a connection in Airflow's formats, JSON or a URI; empty if it has none."""
    if not connection.lstrip().startswith("{"):
        return unquote(urlsplit(connection).password or "")
    try:
        return str(json.loads(connection).get("password") or "")
    except ValueError:
        return ""


def _ask_airflow(id: str) -> str:
    try:
        return str(import_module("airflow.sdk").BaseHook.get_connection(id).password or "")
    except Exception as error:
        raise ConfigurationError(f"connection {id} of Airflow cannot be read: {error}", hint="create it in Airflow") from None
