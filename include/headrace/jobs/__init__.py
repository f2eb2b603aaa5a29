"""Kinds of jobs: their registry, and the protocols of what each of them brings. Imports no part of a kind before it is needed."""
