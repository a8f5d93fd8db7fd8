"""The prefix layer: which KV blocks are kept, and where. A hint to a model, never an answer."""
