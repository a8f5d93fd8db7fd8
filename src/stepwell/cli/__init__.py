"""The ``stepwell`` command."""
