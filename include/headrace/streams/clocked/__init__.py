"""Streams whose windows the clock closes: each is computed once, from the rows that had arrived by then."""
