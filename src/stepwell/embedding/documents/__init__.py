"""Documents: cut into chunks, and a library kept in step with its source."""
