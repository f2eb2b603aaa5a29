"""Plain frozen data classes that every other package shares; imports nothing of ours."""
