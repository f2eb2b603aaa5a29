"""The address and login of Airflow: the one in the home folder, or one that runs elsewhere."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headrace import durable
from headrace.errors import ConfigurationError
from headrace.settings import Settings

USER: Final = "admin"


@dataclass(frozen=True, slots=True)
class Login:
    """The address and login of an Airflow. `url` has no trailing slash. With a `token`, user and password are not used."""

    url: str
    user: str
    password: str
    token: str = ""


class AirflowHome:
    """The files of the Airflow in a home folder: passwords, the keys that components share, and the processes that run."""

    def __init__(self, settings: Settings) -> None:
        self.folder = settings.home_path / "airflow"
        self.passwords, self.secrets = self.folder / "passwords.json", self.folder / "secrets.json"
        self.run = self.folder / "run"
        self.ports = self.run / "ports.json"


def find_login(settings: Settings) -> Login | None:
    """Return how to reach Airflow; None if none is configured and `headrace up` has never run."""
    if settings.airflow_url:
        password, token = settings.airflow_password.reveal(), settings.airflow_token.reveal()
        return Login(settings.airflow_url.rstrip("/"), settings.airflow_user, password, token)
    home = AirflowHome(settings)
    own_password = read_json(home.passwords).get(USER)
    if own_password is None:
        return None
    port = read_json(home.ports).get("api", settings.airflow_port)
    return Login(f"http://127.0.0.1:{port}", USER, own_password)


def ensure_login(home: AirflowHome) -> bool:
    """Create the password and the keys that components share, if missing; return True if the password is new."""
    if not home.secrets.exists():
        names = ("jwt_secret", "api_secret_key")
        write_private(home.secrets, {name: secrets.token_urlsafe(48) for name in names} | {"fernet_key": _fernet_key()})
    if home.passwords.exists():
        return False
    write_private(home.passwords, {USER: secrets.token_urlsafe(12)})
    return True


def _fernet_key() -> str:
    from cryptography.fernet import Fernet

    return Fernet.generate_key().decode()


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; empty if there is no file.

    Raises:
        ConfigurationError: The file is damaged or cannot be read.
    """
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}", hint="remove the file and run `headrace up` again") from None
    return content if isinstance(content, dict) else {}


def write_private(path: Path, content: dict[str, Any]) -> None:
    """Write an object to a JSON file that only its owner can read. The file is replaced atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    durable.write(path, json.dumps(content).encode(), mode=0o600)
