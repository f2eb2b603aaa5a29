"""The tables of the catalog database by topic, with conversions between rows and the model."""
