"""Whether the answer to a stored question may be given to another: levels and policies."""
