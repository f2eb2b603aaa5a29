"""The setting `page_users`: which Headrace user an Airflow user is on the page."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Final

ANYBODY: Final = "*"
"""Key of the Headrace user of all Airflow users that the setting does not name."""


@functools.lru_cache(maxsize=4)
def parse_page_users(text: str) -> Mapping[str, str]:
    """Return the Headrace users by Airflow user; `ValueError` unless the text is such a JSON object."""
    users = json.loads(text) if text.strip() else {}
    if not isinstance(users, dict) or not all(isinstance(name, str) for name in users.values()):
        raise ValueError('page_users is a JSON object such as {"admin": "root", "*": "guest"}')
    return users
