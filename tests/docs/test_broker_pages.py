"""The sections about pipes to and from brokers, with real brokers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.runtime.processes import find_free_port
from tests.docs.pages import BROKER_REASON, ROOT, section_blocks
from tests.docs.snippet_runner import SnippetRunner
from tests.support.kafka_broker import Broker
from tests.support.mqtt_broker import MqttBroker

PAGE = ROOT / "docs" / "guides" / "pipes-reference.md"


def run_section(heading: str, old: list[str], new: list[str], folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Run the snippets of a section in order, with some texts replaced by others."""
    blocks = [block for block in section_blocks(PAGE, heading) if block.language in ("sql", "sh", "python")]
    assert any(block.skip_reason == BROKER_REASON for block in blocks)
    runner = SnippetRunner(folder, patch)
    try:
        for block in blocks:
            text = block.text
            for before, after in zip(old, new, strict=True):
                text = text.replace(before, after)
            try:
                runner.run(replace(block, text=text, skip_reason=None))
            except Exception as error:
                raise AssertionError(f"{block.location}: {error}") from error
    finally:
        runner.close()


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_kafka_section(kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka.create_topic(name="readings")
    run_section("Kafka", ["127.0.0.1:9092"], [kafka.bootstrap], tmp_path, monkeypatch)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_mqtt_section(mqtt: MqttBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_section("MQTT", ["'1883'", "port=1883"], [f"'{mqtt.port}'", f"port={mqtt.port}"], tmp_path, monkeypatch)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_websocket_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = str(find_free_port())
    run_section("WebSocket", ["8080"], [port], tmp_path, monkeypatch)
