"""A soak: an snode works through random writes and faults, and every stream and pipe must equal its query at the end."""
