"""What to start for a number of devices and streams, by arithmetic over measured costs."""
