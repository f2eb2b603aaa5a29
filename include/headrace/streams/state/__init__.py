"""State: the checkpoints of a stream, and rebuilding them."""
