"""Which requests are the same: namespace, canonical form, cache key. Pure."""
