"""The IoTDB language: statements over a tree of devices."""
