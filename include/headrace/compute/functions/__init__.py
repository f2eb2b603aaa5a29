"""Declarations of functions, whatever the language: one class per kind of entry in a language's table."""
