"""The command line: commands, the interactive shell, and what they print."""
