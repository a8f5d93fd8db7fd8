"""The gateway as an ASGI application."""

from typing import TYPE_CHECKING

from starlette.routing import Route, Router

from stepwell.core.names import Endpoint
from stepwell.gateway.admin import Admin
from stepwell.gateway.cached import CachedEndpoint
from stepwell.gateway.counted import counted
from stepwell.gateway.errors import answer_errors
from stepwell.gateway.hot import HotPath
from stepwell.gateway.http import Receive, Scope, Send
from stepwell.gateway.parts import EmbeddingParts, Parts
from stepwell.gateway.passthrough import PassThrough
from stepwell.gateway.status import Status

if TYPE_CHECKING:  # An extra brings what it needs.
    from stepwell.gateway.embeddings import EmbeddingsEndpoint


class Gateway:
    """Finds who answers a request.

    The cached endpoints are found by a look-up, because they are what the gateway is for; all
    others by Starlette's router.
    """

    def __init__(self, parts: Parts) -> None:
        self.hot = HotPath(
            parts.runner,
            parts.exact,
            clock=parts.clock,
            events=parts.events,
            extra_headers=parts.intake.keyed_headers,
            vectors=None if parts.embeddings is None else parts.embeddings.repeats,
        )
        self._cached: dict[str, CachedEndpoint | EmbeddingsEndpoint] = {
            f"/v1/{endpoint}": CachedEndpoint(endpoint, parts, self.hot) for endpoint in Endpoint
        }
        if parts.embeddings is not None:
            self._cached["/v1/embeddings"] = _embeddings(parts, parts.embeddings)
        passed, status, admin = PassThrough(parts), Status(parts), Admin(parts)
        self._others = answer_errors(
            Router(
                [
                    Route("/healthz", status.health, methods=["GET"]),
                    Route("/readyz", status.ready, methods=["GET"]),
                    Route("/metrics", status.metrics, methods=["GET"]),
                    Route("/openapi.json", status.openapi, methods=["GET"]),
                    Route("/v1/models", counted("models", passed.models, parts), methods=["GET"]),
                    Route(
                        "/v1/models/{model:path}",
                        counted("models", passed.model, parts),
                        methods=["GET"],
                    ),
                    Route(
                        "/v1/embeddings",
                        counted("embeddings", passed.embeddings, parts),
                        methods=["POST"],
                    ),
                    Route("/admin/stats", admin.stats, methods=["GET"]),
                    Route("/admin/invalidate", admin.invalidate, methods=["POST"]),
                    Route("/admin/feedback", admin.feedback, methods=["POST"]),
                    Route("/admin/embeddings/delete", admin.delete_embeddings, methods=["POST"]),
                    Route("/admin/replicas", admin.replicas, methods=["GET"]),
                    Route("/admin/replicas", admin.move_replica, methods=["POST"]),
                    Route("/admin/warm", admin.warm, methods=["POST"]),
                    Route("/admin/sources", admin.move_source, methods=["POST"]),
                ],
                redirect_slashes=False,
            )
        )

    @property
    def in_flight(self) -> int:
        """Requests for answers and vectors that are being answered now."""
        return sum(endpoint.active for endpoint in self._cached.values())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        scope["app"] = self  # Else Starlette answers 404 and 405 itself, in plain text.
        app = self._cached.get(scope["path"], self._others)
        await app(scope, receive, send)


def _embeddings(parts: Parts, rooms: EmbeddingParts) -> "EmbeddingsEndpoint":
    from stepwell.gateway.embeddings import EmbeddingsEndpoint  # noqa: PLC0415  (an extra)

    return EmbeddingsEndpoint(parts, rooms)
