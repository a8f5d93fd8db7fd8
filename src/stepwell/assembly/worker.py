"""A worker process: the ASGI application, built when its event loop runs."""

import asyncio
import multiprocessing
from asyncio import to_thread
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from stepwell.assembly.authentication import make_authenticator
from stepwell.assembly.embedding_models import wants_embedding
from stepwell.assembly.engine_pages import EnginePages, EngineWatch
from stepwell.assembly.environment import secret_from
from stepwell.assembly.house import LEDGER_FILE, House, OpenEmbedding, Plan, build_house
from stepwell.assembly.settings import Settings
from stepwell.assembly.standing import prompt_asked
from stepwell.assembly.upstreams import http_targets
from stepwell.assembly.warm_up import WarmUpTask, warm_up_of
from stepwell.core.errors import ConfigError, StepwellError
from stepwell.gateway.app import Gateway
from stepwell.gateway.drain import Drain
from stepwell.gateway.hot import HotPath
from stepwell.gateway.http import Receive, Scope, Send
from stepwell.gateway.parts import EmbeddingParts, Parts
from stepwell.telemetry import catalogue
from stepwell.telemetry.exposition import Page, render_metrics
from stepwell.telemetry.ledger import read_totals
from stepwell.telemetry.savings import as_json, draw_up


class Worker:
    """The gateway with its lifespan. One per process."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._house: House | None = None
        self._gateway: Gateway | None = None
        self.request_timeout_seconds = plan.settings.server.request_timeout_seconds
        self.drain = Drain(plan.settings.server.drain_seconds)

    @property
    def hot(self) -> HotPath:
        """Answers repeats; there once the lifespan has begun."""
        return self._running().hot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        match scope["type"]:
            case "http":
                await self._running()(scope, receive, send)
            case "lifespan":
                await self._live(receive, send)

    def _running(self) -> Gateway:
        if self._gateway is None:
            raise RuntimeError("The application is served without ASGI's lifespan; turn it on.")
        return self._gateway

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            self._house = await build_house(
                self._plan, http_targets, _embedding_opener(self._plan.settings)
            )
            pages = EnginePages(self._plan)
            gateway = self._gateway = Gateway(_parts(self._house, self.drain, pages))
            self._house.gauges.watch(catalogue.IN_FLIGHT, lambda: gateway.in_flight)
            self._house.start_posting()
            warming = _start_warm_up(self._house)
            watch = EngineWatch(pages, self._house.events)
        except StepwellError as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        with self.drain.awaited(), _when_orphaned(self.drain.skip):
            await receive()
        if warming is not None:
            await warming.aclose()
        await watch.aclose()
        await pages.aclose()
        await self._house.aclose()
        await send({"type": "lifespan.shutdown.complete"})


def _start_warm_up(house: House) -> WarmUpTask | None:
    warm_up, folder = warm_up_of(house), house.plan.data_dir
    return None if warm_up is None or folder is None else WarmUpTask(warm_up, folder, house.events)


@contextmanager
def _when_orphaned(stop: Callable[[], None]) -> Iterator[None]:
    """Stop this worker when the process that started it dies; its successor wants the address."""
    parent = multiprocessing.parent_process()
    if parent is None:
        yield
        return
    loop = asyncio.get_running_loop()

    def stop_once() -> None:
        loop.remove_reader(parent.sentinel)
        stop()

    loop.add_reader(parent.sentinel, stop_once)
    try:
        yield
    finally:
        loop.remove_reader(parent.sentinel)


def _parts(house: House, drain: Drain, pages: EnginePages) -> Parts:
    server = house.plan.settings.server
    admin_token = None
    if server.admin_token_env is not None:
        admin_token = secret_from(server.admin_token_env, setting="server.admin_token_env")

    ledger, data_dir = house.ledger, house.plan.data_dir
    if ledger is None or data_dir is None:
        raise ConfigError("data_dir is missing; a gateway needs one.")

    async def read_metrics(accept: str) -> Page:
        beside = await pages.read()
        return await to_thread(render_metrics, await ledger.read(), accept, beside)

    async def read_statement() -> bytes:
        await ledger.flush()
        totals = await to_thread(read_totals, data_dir / LEDGER_FILE)
        return as_json(draw_up(totals.values, totals.since))

    return Parts(
        auth=make_authenticator(house.plan.settings.auth, house.secret),
        intake=house.intake,
        runner=house.runner,
        exact=house.exact,
        groups=house.groups,
        feedback=house.feedback,
        embeddings=_embeddings(house),
        targets=house.targets,
        clock=house.clock,
        events=house.events,
        max_body_bytes=server.max_body_bytes,
        admin_token=admin_token,
        read_metrics=read_metrics,
        read_statement=read_statement,
        read_troubles=house.troubles,
        drain=drain,
        make_prompt=partial(prompt_asked, house.plan.settings, house.secret),
    )


def _embedding_opener(settings: Settings) -> OpenEmbedding | None:
    if not wants_embedding(settings):
        return None
    from stepwell.assembly.embedding_rooms import open_embedding  # noqa: PLC0415  (an extra)

    return open_embedding


def _embeddings(house: House) -> EmbeddingParts | None:
    if house.embedding is None:
        return None
    from stepwell.assembly.embedding_rooms import build_parts  # noqa: PLC0415  (an extra)

    return build_parts(house, house.embedding)
