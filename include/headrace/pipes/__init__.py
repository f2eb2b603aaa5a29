"""Pipes: sources, processors and sinks, what runs them, and the plugins that there are."""
