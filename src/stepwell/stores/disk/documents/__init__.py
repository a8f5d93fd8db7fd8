"""A library of documents in a file of its own; `library` is the way in.

Below it: `changes` (transactions, and what is asked), `search` (what is nearest), `tables`.
"""
