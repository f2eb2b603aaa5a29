"""Hiding of secrets in texts that are shown or logged."""

from __future__ import annotations

import re
from typing import Final

REST_OF_ADDRESS: Final = r"""://)([^\s'"/?#@]*@)?([^\s'"/?#@]*/?)([^\s'"]*)"""
ADDRESS: Final = re.compile(rf"(?i)\b(wss?{REST_OF_ADDRESS}")
"""An address in a text, which is between quotes or spaces: scheme, user, host with slash, and the rest."""
RECEIVER: Final = re.compile(rf"(?i)\b((?:ws|http)s?{REST_OF_ADDRESS}")
"""Such an address in a text about notifications, whose webhooks have secrets too."""
NOTIFY: Final = re.compile(r"(?i)\bnotify\b")
ATTRIBUTE: Final = re.compile(r"""((['"])([^'"]{1,100})\2\s*=\s*)(?:(')((?:[^']|'')*)|(")((?:[^"]|"")*))""")
"""The beginning of `'key' = 'value'`: all before the value with the key in it, and the value after one of both quotes."""
SECRET_KEY: Final = re.compile(
    r"(?i)passw(or)?d|\bpwd\b|secret|token|credential|jaas|authorization|(api|access|private)[-_.]?key|key[-_.]?pem"
)
"""Keys whose values are likely to be secret."""
REFERENCE: Final = re.compile(r"(?:secret|airflow):[\w.-]+")
"""A value that only names where a secret is."""

USER_STATEMENT: Final = re.compile(r"(?i)\b(?:CREATE|ALTER)\s+USER\b")
"""The beginning of a statement without comments that has the password of a user."""
COMMENT: Final = re.compile(r"""'(?:[^']|'')*'?|"(?:[^"]|"")*"?|(--[^\n]*|/\*.*?(?:\*/|\Z))""", re.DOTALL)
"""A comment, which is the group, or a text that may have the signs of one."""
QUOTED: Final = re.compile(r"""(')((?:[^']|'')*)('?)|(")((?:[^"]|"")*)("?)""")


def masked(text: str) -> str:
    """Return a text of the same length with stars for what may be secret.

    That is all but scheme and host of each WebSocket address, and in texts with NOTIFY of each webhook, the values of attributes
    such as `'password' = '…'`, and texts in CREATE USER and ALTER USER.
    """
    address = RECEIVER if NOTIFY.search(text) else ADDRESS
    return address.sub(_mask_address, ATTRIBUTE.sub(_mask_attribute, _mask_user(text)))


def _mask_user(text: str) -> str:
    """Mask all texts after the first words of a statement that has the password of a user, with or without comments between."""
    bare = COMMENT.sub(lambda match: " " * len(match[0]) if match[1] else match[0], text)
    begun = USER_STATEMENT.search(bare)
    return text if begun is None else text[: begun.end()] + QUOTED.sub(_mask_quoted, text[begun.end() :])


def _mask_quoted(quoted: re.Match[str]) -> str:
    single, first, end, double, second, last = quoted.groups(default="")
    return f"{single or double}{'*' * len(first or second)}{end or last}"


def _mask_address(address: re.Match[str]) -> str:
    scheme, user, host, rest = address.groups(default="")
    return f"{scheme}{'*' * len(user)}{host}{'*' * len(rest)}"


def _mask_attribute(attribute: re.Match[str]) -> str:
    beginning, _, key, single, first, double, second = attribute.groups(default="")
    value = first or second
    if not SECRET_KEY.search(key) or REFERENCE.fullmatch(value):
        return attribute[0]
    return f"{beginning}{single or double}{'*' * len(value)}"


def mask_secrets(text: str) -> str:
    """Hide the password of a URL, before the host or among the options; other texts stay as they are."""
    text = re.sub(r"(?<=://)([^/?#@:]*):[^/?#]*@", r"\1:***@", text)
    return re.sub(r"(?i)([?&;][^=&;]*(?:password|secret|token|key)[^=&;]*=)[^&;]*", r"\1***", text)
