"""Calls to model servers whose KV cache is theirs: where to, and in which shape."""
