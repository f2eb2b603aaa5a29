"""Sources: reading the changes of source tables and handing them to streams."""
