"""Stepwell's caches behind the interfaces of other libraries. Each module needs an extra."""
