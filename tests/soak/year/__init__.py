"""A year of commits to one table within an hour: what grows with their number, and what does not."""
