"""What holds at every edge, whoever comes and whatever they send."""
