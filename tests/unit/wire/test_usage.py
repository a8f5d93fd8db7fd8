"""Usage cut out of single events."""

import pytest

from stepwell.wire.usage import has_usage, without_usage


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (b'data: {"a":1,"usage":null}\n\n', b'data: {"a":1}\n\n'),
        (b'data: {"a": 1, "usage": null}\r\n\r\n', b'data: {"a": 1}\r\n\r\n'),
        (b'data: {"usage":null,"a":1}\n\n', b'data: {"a":1}\n\n'),
        (b'data: { "usage" : null , "a": 1}\n\n', b'data: {"a": 1}\n\n'),
        (b'data: {"usage":null}\n\n', b"data: {}\n\n"),
        (b'data:{"a":1,"usage":null,"obfuscation":"x"}\n\n', b'data:{"a":1,"obfuscation":"x"}\n\n'),
        (b'event: x\ndata: {"a":1,"usage":null}\nid: 1\n\n', b'event: x\ndata: {"a":1}\nid: 1\n\n'),
        (b'data: {"a":1,"usage":null}', b'data: {"a":1}'),
    ],
)
def test_null_usage(event: bytes, expected: bytes) -> None:
    """The member goes, with one comma; every other byte stays."""
    assert without_usage(event) == expected


@pytest.mark.parametrize(
    "event",
    [
        b'data: {"a":{"b":1,"usage":null}}\n\n',
        b'data: {"a":{"usage":null}}\n\n',
        b'data: {"a":[{"b":1,"usage":null}]}\n\n',
        rb'data: {"a":"x,\"usage\":null}"}' + b"\n\n",
        rb'data: {"a\"usage":null}' + b"\n\n",
        rb'data: {"a,\"usage":null}' + b"\n\n",
        b'data: {"choices":[{"index":0}],"usage":{"prompt_tokens":1}}\n\n',
        b'data: {"choices":[]}\n\n',
        b'data: {"choices":[],"usage":5}\n\n',
        b"data: [DONE]\n\n",
        b": ping\n\n",
        b': about ,"usage":null}\n\n',
        b'data: {"a":1}\n: about ,"usage":null}\n\n',
        b'data: not json "usage":null\n\n',
        b'data: ["usage",null]\n\n',
        b'data: {"a":1,\ndata: "usage":null}\n\n',
        rb'data: {"\u0075sage":null,"x":{"usage":1}}' + b"\n\n",
    ],
)
def test_other_usage(event: bytes) -> None:
    """What only looks like the chunk's own null usage is left alone.

    So is what is written as no server writes it: in two lines of data, or with escapes.
    """
    assert without_usage(event) == event


def test_own_usage_beside_another() -> None:
    """Of several members of that name, only the chunk's own goes."""
    event = b'data: {"x":{"y":1,"usage":null},"usage":null,"z":{"usage":null}}\n\n'
    assert without_usage(event) == b'data: {"x":{"y":1,"usage":null},"z":{"usage":null}}\n\n'


def test_usage_chunk() -> None:
    """The additional chunk goes as a whole."""
    assert without_usage(b'data: {"choices":[],"usage":{"prompt_tokens":1}}\n\n') == b""


@pytest.mark.parametrize(
    ("sse", "expected"),
    [
        (b"", False),
        (b'data: {"usage":null}\n\n', False),
        (rb'data: {"a":"\"usage\":{}"}' + b"\n\n", False),
        (b'data: {"a":{"usage":{}}}\n\n', False),
        (b'data: {"usage":{"prompt_tokens":1}}\n\ndata: {"usage":null}\n\ndata: [DONE]\n\n', True),
    ],
)
def test_has_usage(sse: bytes, expected: bool) -> None:  # noqa: FBT001  (a table's column)
    """A stream has usage if a chunk of it has the numbers."""
    assert has_usage(sse) is expected
