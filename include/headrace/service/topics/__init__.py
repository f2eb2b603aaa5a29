"""Statements by topic: what stages do, and how statements become stages."""
