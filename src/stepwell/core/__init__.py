"""The nouns every room shares: entries, outcomes, ports, errors, events.

Standard library only, no I/O. Everything else imports from here; nothing here
imports from elsewhere in the package.
"""
