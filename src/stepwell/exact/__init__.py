"""The exact layer: cache key to entry, memory over a shared store."""
