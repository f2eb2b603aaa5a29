"""Where Airflow is and how to log in: of the home folder's own Airflow, or of one that runs elsewhere."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headrace.errors import ConfigurationError
from headrace.settings import Settings

USER: Final = "admin"


@dataclass(frozen=True, slots=True)
class Login:
    """`url` has no slash at its end."""

    url: str
    user: str
    password: str


@dataclass(frozen=True, slots=True)
class AirflowHome:
    """Files of the Airflow that lives in a home folder."""

    folder: Path

    @classmethod
    def of(cls, settings: Settings) -> AirflowHome:
        return cls(settings.home_path / "airflow")

    @property
    def passwords(self) -> Path:
        return self.folder / "passwords.json"

    @property
    def secrets(self) -> Path:
        return self.folder / "secrets.json"

    @property
    def run(self) -> Path:
        """Folder of what is known of the running processes."""
        return self.folder / "run"

    @property
    def ports(self) -> Path:
        return self.run / "ports.json"


def find_login(settings: Settings) -> Login | None:
    """How to reach Airflow; None where none is configured and `headrace up` has never run."""
    if settings.airflow_url:
        return Login(settings.airflow_url.rstrip("/"), settings.airflow_user, settings.airflow_password.get_secret_value())
    home = AirflowHome.of(settings)
    password = read_json(home.passwords).get(USER)
    if password is None:
        return None
    port = read_json(home.ports).get("api", settings.airflow_port)
    return Login(f"http://127.0.0.1:{port}", USER, password)


def ensure_login(home: AirflowHome) -> bool:
    """Make the password and the keys that all components share, where they are missing; True when the password is new."""
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
    """The object in a file; empty where there is no file. A file that was damaged is a `ConfigurationError`."""
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}", hint="remove the file and run `headrace up` again") from None
    return content if isinstance(content, dict) else {}


def write_private(path: Path, content: dict[str, Any]) -> None:
    """Write an object to a file that only its owner can read; readers see the old or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(content, file)
    draft.replace(path)
