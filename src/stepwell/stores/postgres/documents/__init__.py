"""A library of documents on PostgreSQL with pgvector; `library` is the way in.

Below it: `changes` (transactions), `asking` (what changes nothing), `schema` (tables).
"""
