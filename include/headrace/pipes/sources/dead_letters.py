"""The topic for messages that cannot be read: as they are, with headers that say where they were and why they cannot be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headrace.egress import EgressPolicy
from headrace.errors import OperationalError
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.kafka import checked_client, client_settings, translated

FIXED: Final = {"acks": "all", "enable.idempotence": "true"}
FLUSH_S: Final = 60.0


class DeadLetters:
    """Produces messages to the topic `dead-letter.topic`, if there is one."""

    def __init__(self, attributes: PipeAttributes, egress: EgressPolicy) -> None:
        """Read the settings; connect when there is a message."""
        self._egress = egress
        self._topic = attributes.text("dead-letter.topic")
        self._settings = client_settings(attributes, "producer.", FIXED)
        self._producer: Any = None
        self._failure: Any = None

    @property
    def is_enabled(self) -> bool:
        """Whether there is such a topic."""
        return bool(self._topic)

    def send(self, letters: Sequence[tuple[Any, str]]) -> None:
        """Send messages with the reasons why they cannot be read; return when they are acknowledged."""
        from confluent_kafka import Producer

        self._producer = self._producer or checked_client(Producer, self._settings, self._egress)
        self._failure = None
        for message, reason in letters:
            origin = {"topic": message.topic(), "partition": str(message.partition()), "offset": str(message.offset())}
            headers = [
                *(message.headers() or ()),
                *((f"dead-letter.{key}", text) for key, text in {**origin, "reason": reason}.items()),
            ]
            self._producer.produce(self._topic, message.value(), message.key(), headers=headers, on_delivery=self._delivered)
        remaining = self._producer.flush(FLUSH_S)
        if self._failure is not None:
            raise translated(self._failure, f"Kafka topic {self._topic} has not acknowledged a message that cannot be read")
        if remaining:
            raise OperationalError(f"Kafka topic {self._topic} has not acknowledged messages that cannot be read")

    def close(self) -> None:
        """Disconnect."""
        self._producer = None

    def _delivered(self, error: Any, _: Any) -> None:
        self._failure = self._failure or error
