"""The disk tier: one SQLite file shared by the worker processes of a machine, and its feed.

`store` is the way in. Below it: `jobs` (threads asked from the event loop), `reading` and
`writing` (what the two threads do), `entries` and `log` (what the tables mean), `database` (one
thread's connection, which survives damage and replacement), `opening`, `schema`, `files`,
`generation` and `announced` (what stands beside the file), `faults`, `worth`.
"""
