"""Sinks of users."""

from __future__ import annotations

from collections.abc import Callable

from headrace.code.hosts import MAX_ATTEMPTS, lost_hosts
from headrace.code.pipes import PluginInstance
from headrace.pipes.hosted.events import to_plugin
from headrace.pipes.plugins import Delivery, Sink


class HostedSink(Sink):
    """Lets a plugin deliver events. An instance whose host has died is created again, and connects before it delivers."""

    def __init__(self, instance: PluginInstance) -> None:
        """Create a sink, whose instance is started by its handshake."""
        self._instance = instance

    def handshake(self) -> None:
        """Start the instance, and let it connect to its receiver; raise `UserCodeError` if it fails."""
        for _ in range(MAX_ATTEMPTS):
            self._instance.start()
            if self._instance.handshake():
                return
        raise lost_hosts(self._instance.name)

    def heartbeat(self) -> None:
        """Let the instance check its receiver; raise `UserCodeError` if it fails."""
        self._call(self._instance.heartbeat)

    def transfer(self, delivery: Delivery) -> None:
        """Deliver events; raise `UserCodeError` if the plugin fails, which has the same events delivered again."""
        events = to_plugin(delivery.events)
        self._call(lambda: self._instance.transfer(events, f"{delivery.pipe_id}-{delivery.batch}"))

    def close(self) -> None:
        """End the instance."""
        self._instance.close()

    def _call(self, call: Callable[[], bool]) -> None:
        """Make a call, of a new instance if the host does not have it."""
        for _ in range(MAX_ATTEMPTS):
            if call():
                return
            self.handshake()
        if not call():
            raise lost_hosts(self._instance.name)
