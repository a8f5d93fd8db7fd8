"""Offline: compare pairs, choose levels, replay a trace, analyze a log."""
