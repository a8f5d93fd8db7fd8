"""Bodies, keys, methods and paths that are wrong: refused by name, and nothing else happens."""

import hashlib
import json
from collections.abc import AsyncIterator, Iterator
from itertools import product
from typing import Any

import jsonschema_rs
import pytest
from support.gateway import Answer, Gateway, StartGateway, question
from support.raw_http import error_of, head, raw_client, request, unharmed

from stepwell.core.names import Endpoint
from stepwell.gateway.request_schemas import REQUEST_SCHEMAS
from stepwell.testing.fake_upstream import FakeUpstream, Script

PLAIN: dict[Endpoint, dict[str, Any]] = {
    Endpoint.CHAT: question("hi"),
    Endpoint.COMPLETIONS: {"model": "fake", "prompt": "hi"},
    Endpoint.RESPONSES: {"model": "fake", "input": "hi"},
}
PATHS = [*[f"/v1/{endpoint}" for endpoint in Endpoint], "/v1/embeddings"]

NOT_JSON = {
    "empty": b"",
    "blank": b" \r\n\t",
    "cut off": b'{"model":"fake","messages":[{"role":"user","content":"h',
    "trailing": b'{"model":"fake"} x',
    "two bodies": b'{"model":"fake"}{"model":"fake"}',
    "array": b'[{"model":"fake"}]',
    "text": b'"fake"',
    "null": b"null",
    "number": b"1",
    "single quotes": b"{'model':'fake'}",
    "comment": b'{"model":"fake"/* hi */}',
    "byte order mark": b'\xef\xbb\xbf{"model":"fake"}',
    "UTF-16": '{"model":"fake"}'.encode("utf-16"),
    "not UTF-8": b'{"model":"f\xffke"}',
    "overlong UTF-8": b'{"model":"f\xc0\xafke"}',
    "surrogate in UTF-8": b'{"model":"f\xed\xa0\x80ke"}',
    "null byte": b'{"model":"f\x00ke"}',
    "null byte outside": b'{"model":"fake"}\x00',
    "line end in text": b'{"model":"f\nke"}',
    "lone surrogate": rb'{"model":"f\ud800ke"}',
    "lone low surrogate": rb'{"model":"f\udc00ke"}',
    "surrogates swapped": rb'{"model":"f\udc00\ud800ke"}',
    "bad escape": rb'{"model":"f\xke"}',
    "same key twice": b'{"model":"fake","model":"other"}',
    "same key twice, deep": b'{"model":"fake","a":[{"b":1,"b":2}]}',
    "same key twice, escaped": rb'{"model":"fake","\u006dodel":"other"}',
    "NaN": b'{"model":"fake","temperature":NaN}',
    "Infinity": b'{"model":"fake","temperature":Infinity}',
    "-Infinity": b'{"model":"fake","temperature":-Infinity}',
    "infinite": b'{"model":"fake","temperature":1e999}',
    "65 bits": b'{"model":"fake","seed":18446744073709551616}',
    "many digits": b'{"model":"fake","seed":' + b"9" * 10_000 + b"}",
    "leading zero": b'{"model":"fake","seed":01}',
    "65 levels": b'{"model":"fake","a":' + b"[" * 64 + b"]" * 64 + b"}",
    "deep arrays": b'{"a":' * 1 + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "deep and cut off": b"[" * 1_000_000,
    "form": b"model=fake&prompt=hi",
    "compressed": b"\x1f\x8b\x08\x00\x00\x00\x00\x00",
}


@pytest.mark.parametrize("path", PATHS)
async def test_what_is_not_json_is_refused(
    gateway: Gateway, upstream: FakeUpstream, path: str
) -> None:
    """Also what only some parsers take for JSON, or read in different ways."""
    async with unharmed(gateway, upstream):
        answers = {name: await gateway.post(body, path=path) for name, body in NOT_JSON.items()}
    assert {name: told(answer) for name, answer in answers.items()} == dict.fromkeys(
        NOT_JSON, (400, "invalid_json")
    )


def told(answer: Answer) -> tuple[int, str]:
    return answer.status, error_of(answer)["code"]


SAMPLES: list[Any] = [
    *[None, True, False, 0, 7, -1, 0.5, 3.0, "", "text", [], {}],
    *[[None], [True], [7], [0.5], ["text"], [[]], [[7]], [["text"]], [{}]],
    *[[{"type": "text"}], [{"type": 7}], [{"role": "user"}], [{"role": None}], ["text", 7]],
    *[{"a": None}, {"a": 7}, {"a": "text"}, {"type": "text"}, {"role": "user"}],
    *[{"include_usage": "yes"}, {"include_usage": None}, {"no-cache": 1}, {"ttl": -1}],
    *[{"ttl": True}, {"namespace": ""}, {"namespace": "a\n"}, {"s-maxage": 0.5}, {"no-such": 1}],
    *[{"stepwell_tags": 7}, {"stepwell_tags": "a, b"}, {"stepwell_class": "general"}],
]
"""One value of every type JSON has, alone and within; and what single fields are about."""

Case = tuple[str, dict[str, Any], bool]


def cases(endpoint: Endpoint) -> Iterator[Case]:
    """Yield for every field and sample: the field, a body, and whether its schema allows it."""
    for field, schema in REQUEST_SCHEMAS[endpoint]["properties"].items():
        valid = jsonschema_rs.validator_for(schema).is_valid
        for sample in SAMPLES:
            yield field, {**PLAIN[endpoint], field: sample}, valid(sample)


def message_cases() -> Iterator[Case]:
    """Yield the same for every field of a chat message."""
    message = REQUEST_SCHEMAS[Endpoint.CHAT]["properties"]["messages"]["items"]
    for field, schema in message["properties"].items():
        valid = jsonschema_rs.validator_for(schema).is_valid
        for sample in SAMPLES:
            spoiled = {"role": "user", "content": "hi", field: sample}
            yield "messages", {"model": "fake", "messages": [spoiled]}, valid(sample)


@pytest.mark.parametrize("endpoint", [*Endpoint, None], ids=str)
async def test_every_field_is_held_to_its_type(
    gateway: Gateway, upstream: FakeUpstream, endpoint: Endpoint | None
) -> None:
    """What the described schema allows is looked up, and all else refused with the field's name.

    With only-if-cached, so that a look-up ends in 504 and no model server has to like the rest.
    """
    only_if_cached = {"cache-control": "only-if-cached"}
    wrong = []
    path = f"/v1/{endpoint or Endpoint.CHAT}"
    async with unharmed(gateway, upstream):
        for field, body, is_allowed in message_cases() if endpoint is None else cases(endpoint):
            answer = await gateway.post(body, path=path, headers=only_if_cached)
            param = str(error_of(answer)["param"])
            named = param.partition(".")[0].partition("[")[0]
            expected = (504, "None") if is_allowed else (400, field)
            if (answer.status, named) != expected:
                wrong.append((body, answer.status, param, expected))
    assert wrong == []


@pytest.mark.parametrize("endpoint", Endpoint)
async def test_a_required_field_is_missed_by_name(
    gateway: Gateway, upstream: FakeUpstream, endpoint: Endpoint
) -> None:
    """The error names it."""
    required = REQUEST_SCHEMAS[endpoint]["required"]
    async with unharmed(gateway, upstream):
        for field in required:
            body = {name: value for name, value in PLAIN[endpoint].items() if name != field}
            answer = await gateway.post(body, path=f"/v1/{endpoint}")
            assert (told(answer), error_of(answer)["param"]) == ((400, "missing_field"), field)


async def test_a_models_name_has_a_bound(gateway: Gateway, upstream: FakeUpstream) -> None:
    """It is kept in memory with every question, however often another one is made up."""
    assert (await gateway.ask("hi", model="m" * 1_024)).status == 200
    async with unharmed(gateway, upstream):
        for path in PATHS[:3]:
            answer = await gateway.post({**question("hi"), "model": "m" * 1_025}, path=path)
            assert (told(answer), error_of(answer)["param"]) == ((400, "invalid_value"), "model")


async def test_an_escaped_null_is_text_like_any_other(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """It reaches the model server, is part of the key, and does not harm the metrics."""
    for text, model in (("a\0b", "fake"), ("ab", "fake"), ("ab", 'fa\0k"e\n')):
        first = await gateway.ask(text, model=model)
        second = await gateway.ask(text, model=model)
        assert (first.status, first.headers["x-cache"]) == (200, "MISS")
        assert (second.headers["x-cache"], second.body) == ("HIT", first.body)
        assert upstream.calls[-1].json() == question(text, model=model)
    assert (await gateway.get("/metrics")).status == 200


LARGE = pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")
"""aiohttp, the test's client, warns of a copy."""


@LARGE
async def test_a_body_of_5_megabytes_is_served(gateway: Gateway, upstream: FakeUpstream) -> None:
    """As any other: a miss, then a hit."""
    upstream.queue.append(Script(words=3))
    body = question("word " * 1_000_000)
    first = await gateway.post(body)
    second = await gateway.post(body)
    assert [answer.headers["x-cache"] for answer in (first, second)] == ["MISS", "HIT"]
    assert second.body == first.body
    assert upstream.call_count == 1


@LARGE
@pytest.mark.parametrize("bound", [4_096, 2 << 20], ids=["short", "long"])
async def test_a_body_over_the_bound_is_refused(
    start_gateway: StartGateway, upstream: FakeUpstream, bound: int
) -> None:
    """However its length is told; one of exactly the bound is served, also afterwards."""
    text = json.dumps(question("hi")).encode()
    fits, too_long = text.ljust(bound), text.ljust(bound + 1)
    in_chunks = {"content-type": "application/json", "authorization": "Bearer sk-test"}
    async with start_gateway(server={"max_body_bytes": bound}) as gateway:
        async with unharmed(gateway, upstream):
            whole = await gateway.post(too_long)
            async with gateway.http.post(
                gateway.origin + PATHS[0], headers=in_chunks, data=pieces(too_long)
            ) as reply:
                chunked = Answer(reply.status, reply.headers, await reply.read())
        assert (told(whole), told(chunked)) == ((413, "request_too_large"),) * 2
        assert (await gateway.post(fits)).status == 200

        async with raw_client(gateway) as client:
            await client.send(request(too_long) + request(fits))
            assert [(await client.answer()).status for _ in range(2)] == [413, 200]


async def pieces(body: bytes) -> AsyncIterator[bytes]:
    """Yield ``body`` so that an HTTP client sends it in chunks."""
    for start in range(0, len(body), 50_000):
        yield body[start : start + 50_000]


async def test_a_body_far_over_the_bound_need_not_be_sent(
    start_gateway: StartGateway, upstream: FakeUpstream
) -> None:
    """Its announced length is enough, for a client that waits to be asked for it."""
    async with (
        start_gateway(server={"max_body_bytes": 4_096}) as gateway,
        unharmed(gateway, upstream),
        raw_client(gateway) as client,
    ):
        await client.send(head() + b"expect: 100-continue\r\ncontent-length: 99999999999\r\n\r\n")
        assert told(await client.answer()) == (413, "request_too_large")


async def test_a_wrong_method_is_refused(gateway: Gateway, upstream: FakeUpstream) -> None:
    """The reply says which is right."""
    methods = ("GET", "PUT", "PATCH", "DELETE", "OPTIONS")
    async with unharmed(gateway, upstream):
        for method, path in product(methods, (*PATHS, "/admin/invalidate")):
            async with gateway.http.request(method, gateway.origin + path) as reply:
                answer = Answer(reply.status, reply.headers, await reply.read())
            assert told(answer) == (405, "method_not_allowed")
            assert answer.headers["allow"] == "POST"
        async with gateway.http.post(gateway.origin + "/healthz") as reply:
            assert (reply.status, set(reply.headers["allow"].split(", "))) == (405, {"GET", "HEAD"})


UNKNOWN_PATHS = (
    *("/", "/v1", "/v1/chat/completions/", "/v1//chat/completions", "/v1/chat/Completions"),
    *("/v2/models", "/%00%ff%0d%0a", "/v1/chat/../chat/completions"),
)


async def test_an_unknown_path_is_not_found(gateway: Gateway, upstream: FakeUpstream) -> None:
    """Paths are compared as they are."""
    async with unharmed(gateway, upstream), raw_client(gateway) as client:
        for path in UNKNOWN_PATHS:
            await client.send(request(question("hi"), path=path))
            assert told(await client.answer()) == (404, "not_found")


async def test_a_models_name_leads_nowhere_else(gateway: Gateway, upstream: FakeUpstream) -> None:
    """Else any caller could fetch what only the upstream's own key may see."""
    async with unharmed(gateway, upstream), raw_client(gateway) as client:
        for name in ("../files", "..", "a/../../files", "%2e%2e/files", ".%2E/files", "./a"):
            await client.send(f"GET /v1/models/{name} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
            assert told(await client.answer()) == (404, "model_not_found")


async def test_what_a_body_is_called_does_not_matter(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """JSON is JSON: some clients forget to say so. The model server is told."""
    for content_type in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = await gateway.post(question(content_type), headers={"content-type": content_type})
        assert answer.status == 200
        assert dict(upstream.calls[-1].headers)["content-type"] == "application/json"


async def test_admin_takes_declared_json_only(gateway: Gateway) -> None:
    """A page in a browser can send forms and plain text anywhere without asking."""
    for content_type in ("text/plain", "application/x-www-form-urlencoded", ""):
        fields = {"content-type": content_type}
        for path in ("/admin/invalidate", "/admin/sources"):
            answer = await gateway.post(b"{}", path=path, headers=fields)
            assert (answer.status, error_of(answer)["code"]) == (415, "invalid_request")


NO_KEYS: dict[str, dict[str, str]] = {
    "none": {},
    "empty": {"authorization": ""},
    "no token": {"authorization": "Bearer"},
    "blank token": {"authorization": "Bearer   "},
    "another scheme": {"authorization": "Basic c2stdGVzdDo="},
    "token alone": {"authorization": "sk-right"},
}
WRONG_KEYS = {
    "wrong": {"authorization": "Bearer sk-wrong"},
    "another case": {"authorization": "Bearer SK-RIGHT"},
    "longer": {"authorization": "Bearer sk-right, sk-wrong"},
    "odd": {"authorization": "Bearer \u00e9\u00ff"},
}
WITH_KEYS = {
    "mode": "keys",
    "keys": [{"tenant": "us", "key_sha256": hashlib.sha256(b"sk-right").hexdigest()}],
}


async def test_a_configured_key_is_needed(
    start_gateway: StartGateway, upstream: FakeUpstream
) -> None:
    """Without it nothing is answered, from the cache least of all, nor said about the request."""
    async with start_gateway(auth=WITH_KEYS) as gateway:
        assert (await gateway.ask("hi", key="sk-right")).status == 200
        calls = upstream.call_count
        for fields in (*NO_KEYS.values(), *WRONG_KEYS.values()):
            for path in (*PATHS, "/v1/models", "/v1/models/fake"):
                method = "GET" if "models" in path else "POST"
                async with gateway.http.request(
                    method, gateway.origin + path, headers=fields, json=question("hi")
                ) as reply:
                    answer = Answer(reply.status, reply.headers, await reply.read())
                assert told(answer) == (401, "invalid_api_key")
                assert "x-cache" not in answer.headers
            assert told(await gateway.post(b"{", key=None, headers=fields))[0] == 401
        assert upstream.call_count == calls
        for right in ("Bearer sk-right", "bearer   sk-right "):
            answer = await gateway.post(question("hi"), key=None, headers={"authorization": right})
            assert answer.headers["x-cache"] == "HIT"


async def test_without_a_key_the_model_server_decides_and_nothing_is_stored(
    gateway: Gateway, upstream: FakeUpstream
) -> None:
    """Where keys are passed through, nobody's request has no namespace to be cached in."""
    for fields in NO_KEYS.values():
        for _ in range(2):
            answer = await gateway.post(question("hi"), key=None, headers=fields)
            assert answer.headers["x-cache"] == "BYPASS"
            assert answer.headers["x-stepwell-bypass"] == "no API key"
    assert upstream.call_count == 2 * len(NO_KEYS)


async def test_another_key_finds_nothing(gateway: Gateway, upstream: FakeUpstream) -> None:
    """Where keys are passed through, an answer is found with the very key it was made with."""
    await gateway.ask("hi", key="sk-right")
    for fields in WRONG_KEYS.values():
        answer = await gateway.post(question("hi"), key=None, headers=fields)
        assert answer.headers["x-cache"] == "MISS"
    assert upstream.call_count == 1 + len(WRONG_KEYS)


async def test_a_shared_gateway_asks_for_no_key(
    start_gateway: StartGateway, upstream: FakeUpstream
) -> None:
    """Everybody is one tenant, with or without a key."""
    async with start_gateway(auth={"mode": "shared"}) as gateway:
        for fields in (*NO_KEYS.values(), *WRONG_KEYS.values()):
            assert (await gateway.post(question("hi"), key=None, headers=fields)).status == 200
    assert upstream.call_count == 1
