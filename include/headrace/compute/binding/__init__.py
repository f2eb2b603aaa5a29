"""A query as written becomes a plan: names resolved, types determined, limits checked."""
