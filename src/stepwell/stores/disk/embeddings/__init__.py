"""Vectors of texts in a SQLite file of their own: the full store where there is no PostgreSQL.

`store` is the way in. Below it: `threads` (what reads and writes, and keeps the bounds),
`vectors`, `versions` and `claims` (what the tables mean), `schema`.
"""
