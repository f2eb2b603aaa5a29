"""The built-in processors of pipes."""
