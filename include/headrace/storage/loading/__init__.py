"""Loading of CSV, Parquet and NDJSON files."""
