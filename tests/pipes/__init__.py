"""Tests of pipes."""
