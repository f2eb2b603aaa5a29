"""Steps of the evaluation of whole queries: interpolation, order, and ways for large tables."""
