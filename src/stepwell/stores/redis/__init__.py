"""The store that several machines share: Redis, Valkey, or a cluster of them."""
