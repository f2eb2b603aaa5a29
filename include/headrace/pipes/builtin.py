"""The built-in plugins of pipes, by name. Their modules are imported when a pipe uses them."""

from __future__ import annotations

from typing import Final

from headrace.jobs.kinds import imported
from headrace.model.pipes import PipeStage
from headrace.pipes.plugins import Plugin, RejectedPlugin, plugin

KAFKA_SECRETS: Final = frozenset(
    f"{prefix}{key}"
    for prefix in ("", "producer.", "consumer.")
    for key in ("sasl.password", "sasl.oauthbearer.client.secret", "ssl.key.password", "ssl.keystore.password", "ssl.key.pem")
)
TABLE_SOURCE: Final = "table-source"
WRITE_BACK_SINK: Final = "write-back-sink"
KAFKA_RECEIVER: Final = ("bootstrap.servers", "security.", "sasl.", "ssl.", "producer.", "consumer.")
RECEIVER: Final = ("node-urls", "ip", "host", "port", "thrift.", "websocket.", "user", "ssl.")
THRIFT_SECRETS: Final = frozenset({"password", "ssl.trust-store-pwd"})
SOURCES: Final = (
    plugin(
        "iotdb-source",
        PipeStage.SOURCE,
        "sources.trees",
        aliases=("iotdb-extractor",),
        begin=imported("headrace.pipes.sources.trees:begin"),
        capture=imported("headrace.pipes.sources.trees:capture"),
        reads=imported("headrace.pipes.sources.trees:reads"),
        needs=imported("headrace.pipes.sources.trees:needs"),
    ),
    plugin(
        "do-nothing-source", PipeStage.SOURCE, "sources.do_nothing", aliases=("do-nothing-extractor",), is_listed=False, receiver=()
    ),
    plugin(
        TABLE_SOURCE,
        PipeStage.SOURCE,
        "sources.tables",
        begin=imported("headrace.pipes.sources.tables:begin"),
        reads=imported("headrace.pipes.sources.tables:reads"),
        needs=imported("headrace.pipes.sources.tables:needs"),
    ),
    plugin("kafka-source", PipeStage.SOURCE, "sources.kafka", is_outside=True, secrets=KAFKA_SECRETS, receiver=KAFKA_RECEIVER),
    plugin("mqtt-source", PipeStage.SOURCE, "sources.mqtt", is_outside=True, receiver=RECEIVER),
    plugin(
        "iotdb-session-source",
        PipeStage.SOURCE,
        "sources.iotdb_session",
        is_outside=True,
        secrets=THRIFT_SECRETS,
        receiver=RECEIVER,
    ),
)
PROCESSORS: Final = (
    plugin("do-nothing-processor", PipeStage.PROCESSOR, "processors.do_nothing"),
    plugin("tumbling-time-sampling-processor", PipeStage.PROCESSOR, "processors.tumbling_time"),
    plugin("sdt-sampling-processor", PipeStage.PROCESSOR, "processors.swinging_door"),
    plugin("changing-value-sampling-processor", PipeStage.PROCESSOR, "processors.changing_value"),
    plugin("aggregate-processor", PipeStage.PROCESSOR, "processors.aggregate"),
    plugin("count-point-processor", PipeStage.PROCESSOR, "processors.count_point"),
    plugin("throwing-exception-processor", PipeStage.PROCESSOR, "processors.throwing_exception"),
)
SINKS: Final = (
    plugin(
        "do-nothing-sink", PipeStage.SINK, "sinks.do_nothing", aliases=("do-nothing-connector",), is_idempotent=True, receiver=()
    ),
    plugin(
        "iotdb-thrift-sink",
        PipeStage.SINK,
        "sinks.iotdb_thrift",
        is_outside=True,
        aliases=(
            "iotdb-thrift-connector",
            "iotdb-thrift-sync-sink",
            "iotdb-thrift-sync-connector",
            "iotdb-thrift-async-sink",
            "iotdb-thrift-async-connector",
        ),
        secrets=THRIFT_SECRETS,
        receiver=RECEIVER,
        is_idempotent=True,
    ),
    plugin(
        "iotdb-thrift-ssl-sink",
        PipeStage.SINK,
        "sinks.iotdb_thrift",
        is_outside=True,
        aliases=("iotdb-thrift-ssl-connector",),
        secrets=THRIFT_SECRETS,
        receiver=RECEIVER,
        is_idempotent=True,
    ),
    plugin(
        WRITE_BACK_SINK,
        PipeStage.SINK,
        "sinks.write_back",
        aliases=("write-back-connector",),
        is_idempotent=True,
        acts_as_owner=True,
    ),
    plugin(
        "websocket-sink",
        PipeStage.SINK,
        "sinks.websocket",
        is_outside=True,
        aliases=("websocket-connector",),
        is_listed=False,
        receiver=RECEIVER,
    ),
    plugin("kafka-sink", PipeStage.SINK, "sinks.kafka", is_outside=True, secrets=KAFKA_SECRETS, receiver=KAFKA_RECEIVER),
    plugin("mqtt-sink", PipeStage.SINK, "sinks.mqtt", is_outside=True, receiver=RECEIVER),
    plugin("delta-sink", PipeStage.SINK, "sinks.delta", is_outside=True, is_idempotent=True),
)
PLUGINS: Final[tuple[Plugin, ...]] = (*SOURCES, *PROCESSORS, *SINKS)
"""All built-in plugins."""

USE_THRIFT: Final = "use iotdb-thrift-sink or, with TLS, iotdb-thrift-ssl-sink"
REJECTED: Final = (
    RejectedPlugin("iotdb-air-gap-sink", USE_THRIFT),
    RejectedPlugin("iotdb-air-gap-connector", USE_THRIFT),
    RejectedPlugin("iotdb-legacy-pipe-sink", USE_THRIFT),
    RejectedPlugin("iotdb-legacy-pipe-connector", USE_THRIFT),
    RejectedPlugin("opc-ua-sink", "send the data by mqtt-sink, or write a plugin"),
    RejectedPlugin("opc-ua-connector", "send the data by mqtt-sink, or write a plugin"),
    RejectedPlugin("subscription-sink", "use kafka-sink or websocket-sink"),
)
"""Plugins of IoTDB that are not supported."""

BY_NAME: Final[dict[str, Plugin]] = {name: one for one in PLUGINS for name in (one.name, *one.aliases)}
"""All built-in plugins by their names and aliases, in lower case."""
