"""A query as written becomes a plan: names resolved, types known, limits checked."""
