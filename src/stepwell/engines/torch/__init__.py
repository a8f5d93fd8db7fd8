"""The engine whose keys and values are ours: transformers on torch, in a process of its own.

All modules but `process` need the extra ``torch``.
"""
