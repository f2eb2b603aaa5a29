"""Conversion of values to stored types."""
