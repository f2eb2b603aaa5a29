"""Delta tables: commits, reads, changes, maintenance."""
