"""Undoes the content codings of servers that compress though asked not to."""

import zlib
from collections.abc import Iterator

CODINGS = frozenset({"gzip", "deflate"})
"""Those that can be undone."""

_STEP_BYTES = 65_536
"""The longest piece that is made at once: a few bytes can unpack to gigabytes."""

_ZLIB_METHOD = 8


class BadCoding(Exception):
    """The bytes are not in the coding they are said to be in. Quotes none of them."""


class Decoder:
    """Unpacks one body."""

    def __init__(self, coding: str) -> None:
        """Unpack ``coding``, one of `CODINGS`."""
        self._coding = coding
        self._inflate: zlib._Decompress | None = None

    def decode(self, data: bytes) -> Iterator[bytes]:
        """Yield what ``data``, which is not empty, unpacks to, in pieces of bounded size.

        Raises:
            BadCoding: It cannot be unpacked, or goes on behind the end.
        """
        inflate = self._inflate = self._inflate or _decompressor(self._coding, data)
        while True:
            try:
                piece = inflate.decompress(data, _STEP_BYTES)
            except zlib.error:
                raise BadCoding(f"its body is not {self._coding}") from None
            if piece:
                yield piece
            if inflate.unused_data:
                raise BadCoding(f"its {self._coding} body has bytes behind its end")
            data = inflate.unconsumed_tail
            if not data and len(piece) < _STEP_BYTES:  # a full piece may have left some inside
                return

    def finish(self) -> None:
        """Note the end of the body.

        Raises:
            BadCoding: The coding has not come to its end.
        """
        if self._inflate is not None and not self._inflate.eof:
            raise BadCoding(f"its {self._coding} body is cut off")


def _decompressor(coding: str, data: bytes) -> "zlib._Decompress":
    if coding == "gzip":
        return zlib.decompressobj(zlib.MAX_WBITS | 16)
    # RFC 9110, section 8.4.1.2: zlib's format; but some servers send what is inside it only.
    has_frame = data[0] & 0x0F == _ZLIB_METHOD
    return zlib.decompressobj(zlib.MAX_WBITS if has_frame else -zlib.MAX_WBITS)
