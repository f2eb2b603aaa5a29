"""Alerts that a trigger sends to Prometheus's Alertmanager, by its API v2."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

TEMPLATE: Final = re.compile(r"\{\{\.(\w+)\}\}")
MAX_ANSWER_CHARACTERS: Final = 200


class AlertManagerError(RuntimeError):
    """The Alertmanager cannot be reached, or does not accept an alert."""


@dataclass(frozen=True, slots=True)
class AlertManagerConfiguration:
    """Where alerts are sent.

    Attributes:
        endpoint: The URL, such as `http://alertmanager:9093/api/v2/alerts`.
        timeout_s: Seconds after which a request fails.
    """

    endpoint: str
    timeout_s: float = 10.0

    def get_endpoint(self) -> str:
        """Return the URL."""
        return self.endpoint


class AlertManagerEvent:
    """An alert: labels, one of which is `alertname`, and annotations, in which `{{.name}}` is replaced by the value of a label."""

    def __init__(self, alertname: str, extra_labels: Mapping[str, str], annotations: Mapping[str, str] | None = None) -> None:
        """Create an alert. Later changes of the mappings do not change it."""
        self.labels = {"alertname": alertname, **extra_labels}
        self.annotations = {name: self._filled(text) for name, text in (annotations or {}).items()}

    def get_labels(self) -> dict[str, str]:
        """Return the labels."""
        return dict(self.labels)

    def get_annotations(self) -> dict[str, str]:
        """Return the annotations."""
        return dict(self.annotations)

    def to_json_string(self) -> str:
        """Return the alert as the API takes it."""
        return json.dumps({"labels": self.labels, "annotations": self.annotations}, ensure_ascii=False)

    def _filled(self, text: str) -> str:
        return TEMPLATE.sub(lambda match: str(self.labels.get(match[1], match[0])), text)


class AlertManagerHandler:
    """Sends alerts. Each is one request, for which the write waits."""

    def __init__(self) -> None:
        """Create a handler that is not open."""
        self._configuration: AlertManagerConfiguration | None = None

    def open(self, configuration: AlertManagerConfiguration) -> None:
        """Set where alerts are sent."""
        self._configuration = configuration

    def on_event(self, event: AlertManagerEvent) -> None:
        """Send an alert. Raise `AlertManagerError` if it is not accepted."""
        import urllib.error
        import urllib.request

        configuration = self._configuration
        if configuration is None:
            raise AlertManagerError("the handler is not open; call open first")
        body = f"[{event.to_json_string()}]".encode()
        request = urllib.request.Request(configuration.endpoint, body, {"Content-Type": "application/json"})
        try:
            urllib.request.urlopen(request, timeout=configuration.timeout_s).close()
        except urllib.error.HTTPError as error:
            answer = error.read(MAX_ANSWER_CHARACTERS).decode(errors="replace")
            raise AlertManagerError(f"{configuration.endpoint} answered {error.code}: {answer or error.reason}") from error
        except OSError as error:
            raise AlertManagerError(f"{configuration.endpoint} cannot be reached: {error}") from error

    def close(self) -> None:
        """Stop sending alerts."""
        self._configuration = None
