"""The IoTDB language: statements over a tree of devices."""

from headrace.sql.iotdb.dialect import IoTDB

__all__ = ["IoTDB"]
