"""Turning texts into vectors: embedder runtimes and the process that runs them."""
