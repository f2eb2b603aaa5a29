"""The definition of a stream: from a `CREATE STREAM` statement to a checked plan."""
