"""Stepwell: a multi-level cache for LLM inference."""
