"""`headrace monitoring`: alerts for Prometheus and a dashboard for Grafana, made from the metrics of snodes."""

from headrace.cli.monitoring.command import monitoring

__all__ = ["monitoring"]
