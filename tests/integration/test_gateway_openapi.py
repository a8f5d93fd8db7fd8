"""The gateway's description of itself is complete, and the gateway is as it says."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp.web
import jsonschema_rs
import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.routing import Route, Router
from support.gateway import Gateway, StartGateway, question

from stepwell.core.names import Endpoint
from stepwell.gateway import app
from stepwell.gateway.openapi import openapi_document
from stepwell.gateway.request_schemas import REQUEST_SCHEMAS
from stepwell.wire import request

DOCUMENT = openapi_document()
OPERATIONS = {
    (method, path): operation
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
}
EXAMPLES = 20


async def test_every_route_is_described(
    start_gateway: StartGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With each of its methods; and nothing is that is not there."""
    routes: list[Route] = []

    class Recording(Router):
        def __init__(self, given: list[Route], **options: Any) -> None:
            routes.extend(given)
            super().__init__(given, **options)

    monkeypatch.setattr(app, "Router", Recording)
    async with start_gateway() as gateway:
        served = await gateway.get("/openapi.json")
    assert json.loads(served.body) == DOCUMENT
    others = {
        (method.lower(), route.path.replace(":path", ""))
        for route in routes
        for method in route.methods or ()
        if method != "HEAD"
    }
    assert others | {("post", f"/v1/{endpoint}") for endpoint in Endpoint} == set(OPERATIONS)


@pytest.mark.parametrize("endpoint", Endpoint)
def test_every_field_that_is_checked_is_described(endpoint: Endpoint) -> None:
    """And ``cache``, which is taken out before; that types agree is tested with the gateway."""
    fields = msgspec.structs.fields(request._struct(endpoint))
    described = REQUEST_SCHEMAS[endpoint]
    assert set(described["properties"]) == {field.name for field in fields} | {"cache"}
    assert described["required"] == [field.name for field in fields if field.required]


def test_it_is_well_formed() -> None:
    """Schemas are JSON Schema, references lead somewhere, and every operation has its own name."""
    assert DOCUMENT["openapi"] == "3.1.0"
    names = [operation["operationId"] for operation in OPERATIONS.values()]
    assert len(set(names)) == len(names)
    components = DOCUMENT["components"]["schemas"]
    for schema in (*components.values(), *REQUEST_SCHEMAS.values()):
        jsonschema_rs.meta.validate(schema)
    used = {
        part.partition('"')[0]
        for part in json.dumps(DOCUMENT).split('"$ref": "#/components/schemas/')[1:]
    }
    assert used <= set(components)


CUT = b"cut short"

_OF_OTHER_WORDS = {"x-stepwell-similarity", "x-stepwell-hit"}
"""Fields that only the semantic layer's hits have."""


async def answer(request: aiohttp.web.BaseRequest) -> aiohttp.web.Response:
    """Answer anything well, in full unless told: what is tested is the gateway."""
    is_cut = CUT in await request.read()
    return aiohttp.web.json_response(
        {
            "id": "a",
            "object": "chat.completion",
            "choices": [
                {
                    "index": 0,
                    "text": "hi",
                    "message": {"role": "assistant", "content": "hi"},
                    "finish_reason": "length" if is_cut else "stop",
                }
            ],
            "status": "incomplete" if is_cut else "completed",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "hi"}]}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
    )


@asynccontextmanager
async def gateway_before_a_good_server(start_gateway: StartGateway) -> AsyncIterator[Gateway]:
    """Run a gateway whose model server answers anything."""
    runner = aiohttp.web.ServerRunner(aiohttp.web.Server(answer))
    await runner.setup()
    await aiohttp.web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    upstreams = {"fake": {"base_url": f"http://{host}:{port}/v1"}}
    async with start_gateway(upstreams=upstreams) as gateway:
        yield gateway
    await runner.cleanup()


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
async def test_it_behaves_as_described(start_gateway: StartGateway, mode: GenerationMode) -> None:
    """Whatever is sent, as the description has it or not: no error of the gateway's own, and
    status, type of content, header fields and body are those described.
    """
    async with gateway_before_a_good_server(start_gateway) as gateway:
        statuses = await asyncio.to_thread(send_examples, gateway.origin, mode)
    for (method, path), operation in OPERATIONS.items():
        if mode is GenerationMode.POSITIVE:
            # There is no semantic layer here, and no upstream has replicas.
            missing = (method, path) in {("post", "/admin/feedback"), ("post", "/admin/replicas")}
            good = 404 if missing else 200
            assert statuses[method, path, good] >= 1
        elif "requestBody" in operation:
            assert statuses[method, path, 400] >= EXAMPLES / 2
    assert {status for _, _, status in statuses} <= {200, 400, 404}


def send_examples(origin: str, mode: GenerationMode) -> Counter[tuple[str, str, int]]:
    """Send examples of every operation, and count the replies, which must be as described."""
    statuses: Counter[tuple[str, str, int]] = Counter()
    document = json.loads(json.dumps(DOCUMENT))
    for item in document["paths"].values():
        for operation in item.values():
            # The model server's own errors; this one makes none.
            operation["responses"].pop("default", None)
    for found in schemathesis.openapi.from_dict(document).get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        if mode is GenerationMode.NEGATIVE and not operation.body:
            continue
        # Any other name of a class is refused, and then nothing else is seen.
        fixed = {"X-Stepwell-Class": "general"} if operation.headers else None

        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(operation.as_strategy(generation_mode=mode, headers=fixed))
        def send(case: Any) -> None:
            # JSON that no 64 bits hold, or a key given twice, is beyond what a schema can tell.
            response = case.call_and_validate(
                base_url=origin, excluded_checks=[positive_data_acceptance]
            )
            statuses[case.method.lower(), case.path, response.status_code] += 1

        send()
    return statuses


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/responses"])
async def test_the_fields_of_a_reply_are_described(start_gateway: StartGateway, path: str) -> None:
    """Of a miss, a hit, a bypass, a stream and an answer that may not be stored."""
    fields = OPERATIONS["post", path]["responses"]["200"]["headers"]
    body = {**question("hi"), "prompt": None, "input": "hi"}
    async with gateway_before_a_good_server(start_gateway) as gateway:
        answers = [
            await gateway.post(
                {**body, **extra}, path=path, key=key, headers={"X-Stepwell-Tags": "faq"}
            )
            for extra, key in (({}, "a"), ({}, "a"), ({}, None), ({"stream": True}, "a"))
        ]
        answers.append(await gateway.post({**body, "user": CUT.decode()}, path=path, key="a"))
    results = [answer.headers["x-cache"] for answer in answers]
    assert results == ["MISS", "HIT", "BYPASS", "HIT", "MISS"]
    for name, field in fields.items():
        valid = jsonschema_rs.validator_for(field["schema"]).is_valid
        integer = field["schema"].get("type") == "integer"
        for answer_ in answers:
            value = answer_.headers.get(name)
            assert value is not None or not field.get("required")
            assert value is None or valid(int(value) if integer else value)
    named = {name.lower() for name in fields} - _OF_OTHER_WORDS
    ours = {name for answer_ in answers for name in map(str.lower, answer_.headers)}
    assert {n for n in ours if "cache" in n or "stepwell" in n or n == "age"} == named
