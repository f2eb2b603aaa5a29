"""Connections to IoTDB servers, as sinks and sources have them."""
