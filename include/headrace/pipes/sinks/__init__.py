"""The built-in sinks of pipes."""
