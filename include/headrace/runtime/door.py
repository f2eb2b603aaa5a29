"""What an snode knows of its doors."""

from __future__ import annotations

from typing import Protocol


class Door(Protocol):
    """A server that an snode starts with its endpoint and stops at its end."""

    @property
    def name(self) -> str:
        """The name, such as `iotdb`."""

    @property
    def address(self) -> str:
        """The address at which it listens, as host:port."""

    def start(self) -> None:
        """Start serving; return once connections are accepted.

        Raises:
            ConfigurationError: The port cannot be bound.
        """

    def stop(self) -> None:
        """Stop; end the connections."""
