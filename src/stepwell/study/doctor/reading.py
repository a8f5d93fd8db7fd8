"""A file that holds a single request, over as many lines as it likes."""

from pathlib import Path

import orjson

from stepwell.study.analysis.shapes import LoggedRequest, read_line
from stepwell.study.lines import MAX_LINE_BYTES, STANDARD_INPUT


def single_request(path: str, tenant_field: str) -> LoggedRequest | None:
    """Return the request in a file that is one JSON object; ``None`` for everything else.

    A log of two lines and more is seen to be none without being read to its end. What cannot be
    read is no request either: who opens it as a log says why.
    """
    file = Path(path)
    try:
        if path == STANDARD_INPUT or not file.is_file() or file.stat().st_size > MAX_LINE_BYTES:
            return None
        written = orjson.dumps(orjson.loads(file.read_bytes()))
    except (OSError, orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None
    told = read_line(written, tenant_field)
    return told if isinstance(told, LoggedRequest) else None
