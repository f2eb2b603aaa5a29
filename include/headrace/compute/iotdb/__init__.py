"""The IoTDB language: its functions, operators and conversions."""

from headrace.compute.iotdb.language import IOTDB

__all__ = ["IOTDB"]
