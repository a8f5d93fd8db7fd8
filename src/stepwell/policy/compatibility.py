"""Which parameters of two requests may differ a little. Everything else is in the partition."""

TEMPERATURE_TOLERANCE = 0.1

_ROUNDING = 1e-9
"""0.8 - 0.7 is a little more than 0.1 in binary."""


def is_compatible(
    asked: float | None, stored: float | None, tolerance: float = TEMPERATURE_TOLERANCE
) -> bool:
    """Return whether an answer made at temperature ``stored`` may be given where ``asked`` is.

    ``None`` is the server's own default, which nobody here knows: it equals itself only.
    """
    if asked is None or stored is None:
        return asked is stored
    return abs(asked - stored) <= tolerance + _ROUNDING
