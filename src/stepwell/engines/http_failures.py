"""What can go wrong on a connection, and how it may be told."""

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

BROKEN_ERRORS = (aiohttp.ClientError, HttpProcessingError, OSError)
"""What aiohttp raises when a connection, or what comes over it, is not as HTTP has it."""


def describe(error: Exception) -> str:
    """Say what happened without quoting it.

    aiohttp's own texts hold the request's fields, the key among them, and the reply's bytes:
    neither may reach a log, which is also why such errors are not chained as causes.
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__
