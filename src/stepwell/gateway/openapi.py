"""The API's own description (OpenAPI 3.1)."""

from typing import Any

from stepwell.core.names import Endpoint


def openapi_document() -> dict[str, Any]:
    """Return the document served at ``/openapi.json``.

    It describes what the gateway itself checks. Everything else in a request is the model
    server's business and is passed on.
    """
    paths: dict[str, Any] = {
        f"/v1/{endpoint}": {"post": _completion(endpoint)} for endpoint in Endpoint
    }
    return {"openapi": "3.1.0", "info": {"title": "Stepwell", "version": "1"}, "paths": paths}


def _completion(endpoint: Endpoint) -> dict[str, Any]:
    return {"operationId": endpoint.replace("/", "_"), "responses": {"200": {"description": "OK"}}}
