"""What caching would do for the requests of a log."""
