"""The quarantine of a stream: rows that it sets aside, and processes again on request."""
