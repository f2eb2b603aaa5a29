"""Tests of the magic commands of notebooks."""
