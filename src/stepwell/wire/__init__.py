"""Bytes to typed OpenAI requests, answers and events, and back. Pure: no I/O, no clock."""
