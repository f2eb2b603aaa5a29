"""The built-in sources of pipes."""
