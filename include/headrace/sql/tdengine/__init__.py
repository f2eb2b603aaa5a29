"""The TDengine dialect."""
