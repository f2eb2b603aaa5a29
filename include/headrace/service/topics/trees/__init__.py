"""Statements over trees of devices."""
