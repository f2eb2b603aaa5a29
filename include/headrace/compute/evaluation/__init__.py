"""Steps in the evaluation of queries over all rows: interpolation, ordering, and strategies for large tables."""
