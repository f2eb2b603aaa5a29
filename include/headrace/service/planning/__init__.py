"""Plan statements: turn each into a list of stages."""
