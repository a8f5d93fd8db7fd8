"""The API's own description (OpenAPI 3.1)."""

from typing import Any

import msgspec

from stepwell.core.events import Result
from stepwell.core.judgement import Verdict
from stepwell.core.names import Endpoint
from stepwell.gateway.admin import EmbeddingsDeletion, Judged, SourceMove
from stepwell.gateway.replicas import ReplicaMove, ReplicaReports
from stepwell.gateway.request_schemas import EMBEDDINGS_SCHEMA, REQUEST_SCHEMAS, Schema
from stepwell.gateway.selection import Invalidation
from stepwell.gateway.warm import SystemPrompt
from stepwell.pipeline.warm_now import WarmedNow
from stepwell.telemetry.savings import Statement

_REF = "#/components/schemas/{name}"
_JSON = "application/json"
_ANY_JSON: Schema = {_JSON: {"schema": {"type": "object"}}}

_ERROR: Schema = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"], "description": "The field at fault."},
                "code": {"type": ["string", "null"], "description": "Stable; for programs."},
            },
            "required": ["message", "type", "param", "code"],
        }
    },
    "required": ["error"],
}

_REFUSALS = {
    400: "The request is wrong in itself, or not HTTP.",
    401: "The API key is not one of the gateway's (auth.mode = keys).",
    403: "The admin routes are for loopback only; set server.admin_token_env.",
    404: "No upstream serves the model; or there is no such replica, or no such part.",
    408: "The request did not arrive within server.request_timeout_seconds.",
    413: "The body is larger than allowed: server.max_body_bytes; of most admin routes, 64 KiB.",
    415: "The body must be declared as JSON.",
    431: "The header fields are too long.",
    502: "The model server cannot be reached, or its answer broke off.",
    503: "The store could not do it.",
    504: "The model server did not answer in time; or only-if-cached, and nothing is cached.",
}
_ON_ARRIVAL = (400, 408, 431)
"""Any request may be refused so before it is known what it asks."""

_REQUEST_FIELDS = {
    "Cache-Control": "Directives of RFC 9111, 5.2.1: no-cache, no-store, only-if-cached, max-age,"
    " min-fresh, max-stale.",
    "X-Stepwell-Class": "Name of the request class; else rules, else the text decide.",
    "X-Stepwell-Tags": "Names by which the answer can be invalidated: a, b.",
    "X-Stepwell-Sources": "What the answer depends on, with current values: name=value, ...",
    "X-Stepwell-Level": "Answers to other words only at this level or a stricter one: strict,"
    " general, faq.",
    "X-Stepwell-Min-Similarity": "Answers to other words only if so similar, from 0 to 1.",
}

_REPLY_FIELDS: Schema = {
    "Cache-Status": {
        "description": "RFC 9211: hit with ttl, or fwd with the reason, stored, collapsed.",
        "required": True,
        "schema": {"type": "string", "pattern": "^stepwell; (hit|fwd=)"},
    },
    "X-Cache": {
        "description": "How the request ended.",
        "required": True,
        "schema": {
            "enum": [
                result.upper()
                for result in (
                    Result.HIT,
                    Result.STALE,
                    Result.MISS,
                    Result.COLLAPSED,
                    Result.BYPASS,
                )
            ]
        },
    },
    "Age": {
        "description": "Seconds since the answer was made (RFC 9111, 5.1). From the cache only.",
        "schema": {"type": "integer", "minimum": 0},
    },
    "Cache-Groups": {
        "description": "RFC 9875: the tags of an answer from the cache; or the model server's own.",
        "schema": {"type": "string"},
    },
    "X-Stepwell-Key": {
        "description": "Key of the answer in the cache; for /admin/invalidate.",
        "schema": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    },
    "X-Stepwell-Similarity": {
        "description": "Of an answer to other words: how alike the questions are.",
        "schema": {"type": "number", "minimum": 0, "maximum": 1},
    },
    "X-Stepwell-Hit": {
        "description": "Names an answer to other words; for /admin/feedback.",
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]{70}$"},
    },
    "X-Stepwell-Bypass": {
        "description": "Why the cache was kept out of it.",
        "schema": {"type": "string"},
    },
    "X-Stepwell-Not-Stored": {
        "description": "The write gate that refused a whole answer.",
        "schema": {"type": "string"},
    },
}

_OF_VECTORS = ("Cache-Status", "X-Cache", "X-Stepwell-Bypass")

_SUMMARIES = {
    Endpoint.CHAT: "Answer a conversation",
    Endpoint.COMPLETIONS: "Continue a text",
    Endpoint.RESPONSES: "Answer with the Responses API",
}


_SCHEMAS = (
    *(EmbeddingsDeletion, Invalidation, Judged, ReplicaMove, ReplicaReports),
    *(SourceMove, Statement, SystemPrompt, WarmedNow),
)


def openapi_document() -> dict[str, Any]:
    """Return the document served at ``/openapi.json``.

    It describes what the gateway itself checks. Everything else in a request is the model
    server's business and is passed on.
    """
    _, components = msgspec.json.schema_components(
        _SCHEMAS,
        ref_template=_REF,
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Stepwell",
            "version": "1",
            "summary": "A cache in front of OpenAI-compatible model servers.",
            "description": "What a model server answers with any status of 400 or more is passed"
            " on unchanged, with its Retry-After.",
        },
        "paths": {
            **{f"/v1/{endpoint}": {"post": _completion(endpoint)} for endpoint in Endpoint},
            **_passed_on(),
            **_status(),
            **_admin(),
        },
        "components": {
            "schemas": {**components, "Error": _ERROR},
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                "admin": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _completion(endpoint: Endpoint) -> Schema:
    streamed = {"text/event-stream": {"schema": {"type": "string"}}}
    answered = {
        "description": "The model server's answer, or the same from the cache; in events if the"
        " request says stream. A stream that breaks ends with an error event.",
        "headers": _REPLY_FIELDS,
        "content": {**_ANY_JSON, **streamed},
    }
    return {
        "operationId": endpoint.replace("/", "_"),
        "summary": _SUMMARIES[endpoint],
        "security": _FOR_CALLERS,
        "parameters": [
            {"name": name, "in": "header", "description": text, "schema": {"type": "string"}}
            for name, text in _REQUEST_FIELDS.items()
        ],
        "requestBody": _json_body(REQUEST_SCHEMAS[endpoint]),
        "responses": _responses(answered, 401, 404, 413, 502, 504, upstream=True),
    }


def _passed_on() -> Schema:
    answered = {"description": "The upstream's reply.", "content": _ANY_JSON}
    model = {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}
    common = {"security": _FOR_CALLERS}
    return {
        "/v1/models": {
            "get": {
                **common,
                "operationId": "models",
                "summary": "List the models of all upstreams",
                "responses": _responses(answered, 401, 502, 504, upstream=True),
            }
        },
        "/v1/models/{model}": {
            "get": {
                **common,
                "operationId": "model",
                "summary": "Describe a model",
                "parameters": [model],
                "responses": _responses(answered, 401, 404, 502, 504, upstream=True),
            }
        },
        "/v1/embeddings": {"post": _embeddings()},
    }


def _embeddings() -> Schema:
    answered = {
        "description": "Vectors, each from the cache or the model server. The fields are there"
        " where vectors are kept ([embedding]).",
        "headers": {name: {**_REPLY_FIELDS[name], "required": False} for name in _OF_VECTORS},
        "content": _ANY_JSON,
    }
    return {
        "operationId": "embeddings",
        "summary": "Embed texts",
        "security": _FOR_CALLERS,
        "parameters": [
            {
                "name": "Cache-Control",
                "in": "header",
                "description": "no-cache, no-store, only-if-cached. Vectors have no age.",
                "schema": {"type": "string"},
            }
        ],
        "requestBody": _json_body(EMBEDDINGS_SCHEMA),
        "responses": _responses(answered, 401, 404, 413, 502, 504, upstream=True),
    }


def _status() -> Schema:
    def get(name: str, summary: str, content: Schema) -> Schema:
        answered = {"description": "It is so.", "content": content}
        return {"get": {"operationId": name, "summary": summary, "responses": _responses(answered)}}

    def said(word: str, **more: Schema) -> Schema:
        schema = {
            "type": "object",
            "properties": {"status": {"const": word}, **more},
            "required": ["status", *more],
        }
        return {_JSON: {"schema": schema}}

    reasons = {"type": "object", "additionalProperties": {"type": "string"}}

    ready = get("ready", "Say that requests can be served", said("ready", degraded=reasons))
    ready["get"]["responses"]["503"] = {
        "description": "The gateway is about to stop; what is sent to it is still answered.",
        "content": said("draining", degraded=reasons),
    }

    page = {"schema": {"type": "string"}}
    metrics = {"text/plain": page, "application/openmetrics-text": page}
    return {
        "/healthz": get("health", "Say that the process lives", said("ok")),
        "/readyz": ready,
        "/metrics": get("metrics", "Show Prometheus the metrics of all workers", metrics),
        "/openapi.json": get("openapi", "Return this document", _ANY_JSON),
    }


def _admin() -> Schema:
    counted = _object(matched={"type": "integer"}, removed={"type": "integer"})
    obeyed = _object(obeyed={"const": True})
    moved = _object(moved={"type": "boolean"})
    deleted = _object(deleted={"type": "integer"}, versions={"type": "integer"})
    judged = _object(
        key={"type": "string"}, verdict={"enum": list(Verdict)}, found={"type": "boolean"}
    )

    invalidate = _operation("invalidate", "Count, or remove, answers", counted, 413, 415, 503)
    accepted = {"description": "All obey.", "content": {_JSON: {"schema": obeyed}}}
    invalidate["responses"]["202"] = accepted

    return {
        "/admin/stats": {"get": _operation("stats", "Show what was saved", _ref("Statement"), 503)},
        "/admin/invalidate": {
            "post": {
                **invalidate,
                "parameters": _INVALIDATE_FIELDS,
                "requestBody": _json_body(_ref("Invalidation")),
            }
        },
        "/admin/feedback": {
            "post": {
                **_operation("feedback", "Say whether a hit was right", judged, 404, 413, 415, 503),
                "requestBody": _json_body(_ref("Judged")),
            }
        },
        **_admin_replicas(moved),
        "/admin/embeddings/delete": {
            "post": {
                **_operation("delete_embeddings", "Delete vectors", deleted, 404, 413, 415, 503),
                "requestBody": _json_body(_ref("EmbeddingsDeletion")),
            }
        },
        "/admin/sources": {
            "post": {
                **_operation("move_source", "Set a source's value", moved, 413, 415, 503),
                "requestBody": _json_body(_ref("SourceMove")),
            }
        },
    }


def _admin_replicas(moved: Schema) -> Schema:
    return {
        "/admin/replicas": {
            "get": _operation("replicas", "Show the replicas", _ref("ReplicaReports")),
            "post": {
                **_operation("move_replica", "Drain a replica, or end that", moved, *_MOVING),
                "requestBody": _json_body(_ref("ReplicaMove")),
            },
        },
        "/admin/warm": {
            "post": {
                **_operation("warm", "Have a prompt read now", _ref("WarmedNow"), 413, 415),
                "requestBody": _json_body(_ref("SystemPrompt")),
            }
        },
    }


def _operation(name: str, summary: str, schema: Schema, *statuses: int) -> Schema:
    answered = {"description": "It is done.", "content": {_JSON: {"schema": schema}}}
    return {
        "operationId": name,
        "summary": summary,
        "security": _FOR_OPERATORS,
        "responses": _responses(answered, 401, 403, *statuses),
    }


_MOVING = (404, 413, 415, 503)

_INVALIDATE_FIELDS: list[Schema] = [
    {
        "name": "Cache-Group-Invalidation",
        "in": "header",
        "description": "RFC 9875: tags, in place of one in the body. What carries any of them.",
        "schema": {"type": "string"},
    },
    {
        "name": "Prefer",
        "in": "header",
        "description": "RFC 7240: with respond-async all obey, but nobody counts.",
        "schema": {"type": "string"},
    },
]

_FOR_CALLERS: list[Schema] = [{"key": []}, {}]
_FOR_OPERATORS: list[Schema] = [{"admin": []}, {}]


def _responses(answered: Schema, *statuses: int, upstream: bool = False) -> Schema:
    """Return the replies of an operation.

    Args:
        answered: The good one.
        statuses: Of refusals, besides those any request may meet.
        upstream: Whether a model server's own errors are passed on.
    """
    content = {_JSON: {"schema": _ref("Error")}}
    responses: Schema = {"200": answered}
    for status in sorted({*_ON_ARRIVAL, *statuses}):
        responses[str(status)] = {"description": _REFUSALS[status], "content": content}
    if upstream:
        responses["default"] = {"description": "The model server's own error, unchanged."}
    return responses


def _json_body(schema: Schema) -> Schema:
    return {"required": True, "content": {_JSON: {"schema": schema}}}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _ref(name: str) -> Schema:
    return {"$ref": _REF.format(name=name)}
