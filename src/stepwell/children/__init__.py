"""Processes that this one starts, keeps running and stops."""
