"""Counts what happens and reports it: metrics, a structured log, the savings ledger."""
