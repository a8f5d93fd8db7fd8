"""The vector index: a derived view of the store, searched by partition."""
