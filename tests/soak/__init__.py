"""A soak test: a system with an snode works through random writes and faults, and every stream must equal its query at the end."""
