"""The bodies of the cached endpoints as JSON Schema: what the gateway checks, no more.

Types, never ranges, and any further field: the model server knows better what it takes. Written
by hand beside `stepwell.wire.request`; tests hold the two together, field by field.
"""

from typing import Any

from stepwell.core.names import Endpoint
from stepwell.pipeline.intake import MAX_MODEL_CHARACTERS
from stepwell.wire.embeddings import MAX_DIMENSIONS, MAX_TOKEN
from stepwell.wire.markers import MAX_NAME_CHARACTERS

Schema = dict[str, Any]

_ANY_OBJECT: Schema = {"type": "object"}
_BOOLEAN: Schema = {"type": ["boolean", "null"]}
_INTEGER: Schema = {"type": ["integer", "null"]}
_NUMBER: Schema = {"type": ["number", "null"]}
_OBJECT: Schema = {"type": ["object", "null"]}
_OBJECTS: Schema = {"type": ["array", "null"], "items": _ANY_OBJECT}
_STRING: Schema = {"type": ["string", "null"]}
_STRINGS: Schema = {"type": ["array", "null"], "items": {"type": "string"}}
_STRING_OR_OBJECT: Schema = {"type": ["string", "object", "null"]}
_STRING_OR_STRINGS: Schema = {"type": ["string", "array", "null"], "items": {"type": "string"}}

_MODEL: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_MODEL_CHARACTERS,
    "description": "Chooses the upstream; see /v1/models.",
}
_STREAM_OPTIONS: Schema = {
    "type": ["object", "null"],
    "properties": {"include_usage": _BOOLEAN, "include_obfuscation": _BOOLEAN},
}
_METADATA: Schema = {
    "type": ["object", "null"],
    "properties": {
        "stepwell_class": {"type": "string", "description": "As X-Stepwell-Class."},
        "stepwell_level": {"type": "string", "description": "As X-Stepwell-Level."},
        "stepwell_min_similarity": {
            "type": "string",
            "description": "As X-Stepwell-Min-Similarity.",
        },
        "stepwell_sources": {"type": "string", "description": "As X-Stepwell-Sources."},
        "stepwell_tags": {"type": "string", "description": "As X-Stepwell-Tags."},
    },
    "description": "What begins with stepwell_ is taken out; all else is the model server's.",
}
_CACHE: Schema = {
    "anyOf": [
        {
            "type": "object",
            "properties": {
                "no-cache": {**_BOOLEAN, "description": "Do not answer from the cache."},
                "no-store": {**_BOOLEAN, "description": "Do not store the answer."},
                "ttl": {**_NUMBER, "minimum": 0, "description": "Seconds to keep the answer."},
                "s-maxage": {**_NUMBER, "minimum": 0, "description": "Greatest age in seconds."},
                "s-max-age": {**_NUMBER, "minimum": 0, "description": "The same."},
                "namespace": {
                    **_STRING,
                    "minLength": 1,
                    "maxLength": MAX_NAME_CHARACTERS,
                    "pattern": r"^[^\u0000-\u001f\u007f-\u009f]*$",
                    "description": "Shares only with requests that give the same one.",
                },
            },
            "additionalProperties": False,
        },
        {
            "type": ["array", "boolean", "number", "string", "null"],
            "description": "Not for the cache: sent on.",
        },
    ],
    "description": "Cache controls; taken out before the request is sent on.",
}

_COMMON: Schema = {
    "model": _MODEL,
    "cache": _CACHE,
    "metadata": _METADATA,
    "safety_identifier": _STRING,
    "stream": _BOOLEAN,
    "stream_options": _STREAM_OPTIONS,
    "temperature": _NUMBER,
    "top_p": _NUMBER,
    "user": _STRING,
}
_SAMPLING: Schema = {
    "frequency_penalty": _NUMBER,
    "logit_bias": {"type": ["object", "null"], "additionalProperties": {"type": "number"}},
    "max_tokens": _INTEGER,
    "n": _INTEGER,
    "presence_penalty": _NUMBER,
    "seed": _INTEGER,
    "stop": _STRING_OR_STRINGS,
}
_PART: Schema = {
    "type": "object",
    "properties": {"type": {"type": "string"}},
    "required": ["type"],
}
_MESSAGE: Schema = {
    "type": "object",
    "properties": {
        "role": {"type": "string"},
        "content": {"type": ["string", "array", "null"], "items": _PART},
        "name": _STRING,
        "refusal": _STRING,
        "tool_call_id": _STRING,
        "tool_calls": _OBJECTS,
        "function_call": _OBJECT,
    },
    "required": ["role"],
}
_CHAT: Schema = {
    "messages": {"type": "array", "items": _MESSAGE, "minItems": 1},
    "audio": _OBJECT,
    "function_call": _STRING_OR_OBJECT,
    "functions": _OBJECTS,
    "logprobs": _BOOLEAN,
    "max_completion_tokens": _INTEGER,
    "modalities": _STRINGS,
    "parallel_tool_calls": _BOOLEAN,
    "prediction": _OBJECT,
    "prompt_cache_key": _STRING,
    "reasoning_effort": _STRING,
    "response_format": _OBJECT,
    "service_tier": _STRING,
    "store": _BOOLEAN,
    "tool_choice": _STRING_OR_OBJECT,
    "tools": _OBJECTS,
    "top_logprobs": _INTEGER,
    "verbosity": _STRING,
    "web_search_options": _OBJECT,
}
_COMPLETIONS: Schema = {
    "prompt": {
        "type": ["string", "array", "null"],
        "items": {"type": ["string", "integer", "array"], "items": {"type": "integer"}},
        "description": "Texts, tokens or lists of tokens.",
    },
    "best_of": _INTEGER,
    "echo": _BOOLEAN,
    "logprobs": _INTEGER,
    "suffix": _STRING,
}
_RESPONSES: Schema = {
    "background": _BOOLEAN,
    "conversation": _STRING_OR_OBJECT,
    "include": _STRINGS,
    "input": {"type": ["string", "array", "null"], "items": _ANY_OBJECT},
    "instructions": _STRING,
    "max_output_tokens": _INTEGER,
    "max_tool_calls": _INTEGER,
    "parallel_tool_calls": _BOOLEAN,
    "previous_response_id": _STRING,
    "prompt": _OBJECT,
    "prompt_cache_key": _STRING,
    "reasoning": _OBJECT,
    "service_tier": _STRING,
    "store": _BOOLEAN,
    "text": _OBJECT,
    "tool_choice": _STRING_OR_OBJECT,
    "tools": _OBJECTS,
    "top_logprobs": _INTEGER,
    "truncation": _STRING,
}

REQUEST_SCHEMAS: dict[Endpoint, Schema] = {
    Endpoint.CHAT: {
        "type": "object",
        "properties": {**_COMMON, **_SAMPLING, **_CHAT},
        "required": ["model", "messages"],
    },
    Endpoint.COMPLETIONS: {
        "type": "object",
        "properties": {**_COMMON, **_SAMPLING, **_COMPLETIONS},
        "required": ["model"],
    },
    Endpoint.RESPONSES: {
        "type": "object",
        "properties": {**_COMMON, **_RESPONSES},
        "required": ["model"],
    },
}

_TOKEN: Schema = {"type": "integer", "minimum": 0, "maximum": MAX_TOKEN}
_TOKENS: Schema = {"type": "array", "items": _TOKEN}

EMBEDDINGS_SCHEMA: Schema = {
    "type": "object",
    "properties": {
        "model": _MODEL,
        "input": {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "string"}, "minItems": 1},
                {**_TOKENS, "minItems": 1},
                {"type": "array", "items": _TOKENS, "minItems": 1},
                {"type": "array", "contains": _ANY_OBJECT},
                {"type": ["object", "null"]},
            ],
            "description": "A text, texts, tokens, or lists of tokens; at most"
            " embedding.max_inputs. What holds objects is sent on, and not kept.",
        },
        "encoding_format": {
            **_STRING,
            "description": "float or base64; with any other the request is sent on.",
        },
        "dimensions": {**_INTEGER, "minimum": 1, "maximum": MAX_DIMENSIONS},
        "cache": _CACHE,
    },
    "required": ["model"],
}
