"""The formats of messages: rows of devices as texts of JSON, CSV or line protocol, and back. All by Arrow and DuckDB kernels."""
