"""Vectors of texts in PostgreSQL: the full store that machines share.

`store` is the way in. Below it: `statements` (what is said to the server), `register` (versions
come and go), `schema` (tables and partitions).
"""
