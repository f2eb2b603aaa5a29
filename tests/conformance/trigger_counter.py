"""A trigger of IoTDB's own tests, ported: it counts how often it is called."""

from __future__ import annotations

from headrace.trigger import Tablet, Trigger, TriggerAttributes


class TriggerFireTimesCounter(Trigger):
    """Counts its calls, and after each writes their number to root.fired, in a series of its name."""

    def on_create(self, attributes: TriggerAttributes) -> None:
        """Begin to count."""
        self.name = attributes.get_string_or_default("name", "counter")
        self.fire_times = 0

    def fire(self, tablet: Tablet) -> bool:  # noqa: ARG002
        """Count a call."""
        self.fire_times += 1
        self.insert("root.fired.counts", 0, {self.name: self.fire_times})
        return True
