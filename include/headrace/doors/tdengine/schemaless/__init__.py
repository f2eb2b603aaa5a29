"""Schemaless writing: rows whose tables, columns and tags are created as they arrive, as TDengine does."""
