"""Stepwell inside a program: `Cache`, and `wrap` for OpenAI clients."""
