"""From statements to stages to effects: the one way in for the CLI, HTTP and Python."""
