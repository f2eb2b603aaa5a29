"""The tree of devices: databases, series, templates, the names that paths are resolved against, and the writing of points."""
