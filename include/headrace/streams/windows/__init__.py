"""One micro-batch of a window query: lateness, windows in state, recalculation and emission."""
