"""Families of Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

Samples = Iterable[tuple[tuple[str, ...], float]]


def counter(name: str, text: str, labels: Sequence[str], samples: Samples) -> Metric:
    return with_samples(CounterMetricFamily(f"headrace_{name}", text, labels=labels), samples)


def gauge(name: str, text: str, labels: Sequence[str], samples: Samples) -> Metric:
    return with_samples(GaugeMetricFamily(f"headrace_{name}", text, labels=labels), samples)


def with_samples(family: CounterMetricFamily | GaugeMetricFamily, samples: Samples) -> Metric:
    for values, value in samples:
        family.add_metric(values, value)
    return family
