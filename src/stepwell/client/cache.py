"""The cache as an object in a program."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import orjson

from stepwell.assembly.house import House, MakeTargets, Plan
from stepwell.assembly.own_house import OwnHouse, open_own_house
from stepwell.assembly.secret import secret_of
from stepwell.assembly.settings import Settings
from stepwell.client.answer import AnswerStream, CachedAnswer, whole
from stepwell.client.given import settings_of
from stepwell.client.memo import Memo
from stepwell.core.entry import Selector, SourceValue
from stepwell.core.errors import ConfigError, RequestError, UpstreamError
from stepwell.core.events import Result
from stepwell.core.judgement import read_verdict
from stepwell.core.names import EVERYONE, CacheKey
from stepwell.gateway.selection import from_hex
from stepwell.keys.namespace import Tenant
from stepwell.pipeline.exchange import Exchange
from stepwell.pipeline.hit_id import read_hit_id
from stepwell.pipeline.plan import NOT_CACHED
from stepwell.pipeline.question import Ask, Question
from stepwell.pipeline.repeats import Repeats
from stepwell.pipeline.served import Served
from stepwell.telemetry.savings import Statement, draw_up
from stepwell.wire.endpoint import endpoint_of

READY_SECONDS = 30.0
"""How long entering waits for an embedder to load, and to embed what its index lacks. It takes one
second, and five when it has never run on this machine."""

Request = Mapping[str, Any]
"""The body of an OpenAI request, as a dictionary."""


class Cache:
    """A multi-level cache in front of model servers, without a gateway.

    ::

        async with stepwell.Cache(upstream="http://127.0.0.1:8000/v1") as cache:
            answer = await cache.complete({"model": "m", "messages": [...]})
            print(answer.result, answer.json()["choices"][0]["message"]["content"])

    Async; safe for many tasks on one event loop, not across threads. For a synchronous program,
    and for one that has an OpenAI client already, see `stepwell.wrap`.
    """

    def __init__(
        self,
        settings: Settings | Mapping[str, Any] | Path | str | None = None,
        *,
        upstream: str | None = None,
        data_dir: Path | str | None = None,
        tenant: str = "default",
    ) -> None:
        """Describe the cache; nothing happens before it is entered.

        Args:
            settings: As the settings file has them: parsed, as plain tables, or the file.
            upstream: Base URL of the one model server, ending in ``/v1``; instead of the
                settings' ``upstreams``.
            data_dir: Where entries are kept, shared with other processes. Without it they stay
                in memory.
            tenant: Whose requests these are. Tenants never share an entry.

        Raises:
            ConfigError: A setting is wrong.
        """
        if not (isinstance(tenant, str) and tenant):
            raise ConfigError(f"tenant is {tenant!r}; allowed: a name.")
        self._settings = settings_of(settings, upstream)
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._tenant_name = tenant
        self._own: OwnHouse | None = None
        self._tenant: Tenant | None = None
        self._repeats: Repeats | None = None

    async def __aenter__(self) -> Self:
        """Build the cache and open its stores.

        Where the settings want answers to other words, waits until they can be found, but no
        longer than 30 seconds.

        Raises:
            ConfigError: A setting cannot be used.
            StoreUnavailable: The data directory cannot be used.
        """
        secret = secret_of(self._settings, self._data_dir)
        plan = Plan(self._settings, self._data_dir, secret)
        own = self._own = await open_own_house(plan, _http_targets())
        self._tenant = Tenant(f"name:{self._tenant_name}", secret)
        house = own.house
        house.start_posting()
        self._repeats = Repeats(
            house.runner,
            house.exact,
            clock=house.clock,
            events=house.events,
            head_of=lambda _: b"",
        )
        try:
            await own.wait_until_current(READY_SECONDS)
        except BaseException:
            await self._leave(own)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write what is pending and close everything."""
        if self._own is not None:
            await self._leave(self._own)

    async def _leave(self, own: OwnHouse) -> None:
        self._own = self._repeats = None
        await own.aclose()

    async def lookup(self, request: Request) -> CachedAnswer | None:
        """Return the cached answer to ``request``, or ``None``. Asks no model server.

        Cost: a few microseconds for a repeat that is in memory.

        Raises:
            RequestError: The request is wrong in itself.
        """
        if (known := self._remembered(request)) is not None:
            return known
        ask = self._ask(_whole(request), request)
        try:
            served = await self._walk(replace(ask, question=_only_cached(ask.question)))
        except RequestError as error:
            if error.code != NOT_CACHED:
                raise
            return None
        return await whole(served)

    async def complete(self, request: Request) -> CachedAnswer:
        """Return the answer to ``request``, from the cache or from the model server.

        A field ``stream`` is ignored: both kinds of requests share their entries.

        Raises:
            RequestError: The request is wrong in itself, or demands what cannot be had.
            UpstreamError: The model server failed and nothing stale could stand in.
        """
        if (known := self._remembered(request)) is not None:
            return known
        return await whole(await self._walk(self._ask(_whole(request), request)))

    async def stream(self, request: Request) -> AnswerStream:
        """Return the answer to ``request`` as events, live or replayed.

        ::

            async with await cache.stream(request) as stream:
                async for chunk in stream: ...

        Raises:
            RequestError, UpstreamError: As `complete`.
        """
        return AnswerStream(await self._walk(self._ask({**request, "stream": True})))

    async def invalidate(
        self,
        *,
        key: str | None = None,
        model: str | None = None,
        request_class: str | None = None,
        tag: str | None = None,
        everything: bool = False,
    ) -> int:
        """Remove this tenant's entries that match all that is given; return how many.

        Answers that are on their way are not stored either. Others who share the data directory
        obey at once.

        Raises:
            ConfigError: Nothing is given, and not ``everything`` either.
            RequestError: ``key`` is none.
            StoreError: It could not be done everywhere.
        """
        selector = Selector(
            namespace=self._whose().namespace(),
            key=None if key is None else CacheKey(from_hex("key", key, 32)),
            model=model,
            request_class=request_class,
            tag=tag,
        )
        if (selector == Selector(namespace=selector.namespace)) != everything:
            raise ConfigError("Say what to remove: key, model, request_class, tag; or everything.")
        return await self._entered().exact.invalidate(selector)

    async def move_source(self, name: str, value: str) -> bool:
        """Set the current value of a named source, for all tenants; return whether it changed.

        Entries made under another value are stale from now on.

        Raises:
            StoreError: It could not be made known.
        """
        return await self._entered().exact.move_source(EVERYONE, SourceValue(name, value))

    async def feedback(
        self,
        answer: CachedAnswer | AnswerStream | str,
        verdict: Literal["right", "wrong"],
        *,
        delete: bool = False,
    ) -> bool:
        """Say whether an answer that was given to other words was right.

        A wrong one is never given to these words again, and its entry only to nearer ones.

        Args:
            answer: What `complete`, `lookup` or `stream` returned, or its ``hit_id``.
            verdict: What is said of it.
            delete: Remove the entry too: its answer is wrong for any question.

        Returns:
            Whether the entry was still there. What is said of the two questions counts in any case.

        Raises:
            RequestError: It did not answer other words, so there is nothing to say; or
                ``verdict`` is none.
            StoreError: It could not be made known.
        """
        text = _hit_id_of(answer)
        feedback = self._entered().feedback
        try:
            hit = read_hit_id(text)
        except ValueError as error:
            raise RequestError(f"Nothing to judge: {error}.", code="no_hit") from error
        if feedback is None:
            raise RequestError("There is no semantic layer.", status=404, code="semantic_off")
        return await feedback.give(hit, read_verdict(verdict), delete=delete)

    def memo(self, purpose: str, *, ttl_seconds: float) -> Memo:
        """Return a place for values of your own, kept as this tenant's answers are.

        Args:
            purpose: What tells them from the values of others.
            ttl_seconds: How long each is kept.
        """
        house = self._entered()
        return Memo(house.exact, house.clock, self._whose().namespace(), purpose, ttl_seconds)

    def statement(self) -> Statement:
        """Return what this process's cache saved since it was entered."""
        return draw_up(self._entered().meters.values())

    def _remembered(self, request: Request) -> CachedAnswer | None:
        """Answer a repeat of a request to `lookup` or `complete` from memory, or not at all."""
        house, repeats = self._entered(), self._repeated()
        started, now = house.clock.monotonic(), house.clock.now()
        found = repeats.find(_digest(request), now)
        if found is None:
            return None
        repeat, entry = found
        answer = CachedAnswer(
            200,
            repeats.body_of(repeat, entry),
            Result.HIT,
            entry.key.hex(),
            max(0.0, now - entry.created_at),
            max(0.0, entry.expires_at - now),
            (repeat.trail,),
        )
        repeats.count(repeat, entry, house.clock.monotonic() - started)
        return answer

    def _ask(self, request: Request, repeat_of: Request | None = None) -> Ask:
        """Make a question; remember it for when ``repeat_of`` comes again."""
        endpoint = endpoint_of(request)
        ask = self._entered().intake.take(endpoint, dict(request), {}, self._whose())
        if repeat_of is not None:
            self._repeated().remember(_digest(repeat_of), ask.question)
        return ask

    async def _walk(self, ask: Ask) -> Served:
        house = self._entered()
        exchange = Exchange(ask.question.endpoint, clock=house.clock, events=house.events)
        exchange.question = ask.question
        try:
            exchange.served = await house.runner.answer(ask)
        except RequestError as error:
            if error.code == NOT_CACHED:
                raise  # Nothing was refused: somebody only looked.
            exchange.fail(error)
            raise
        except UpstreamError as error:
            exchange.fail(error)
            raise
        exchange.end()
        return exchange.served

    def _entered(self) -> House:
        if self._own is None:
            raise RuntimeError("Use the cache inside `async with`.")
        return self._own.house

    def _repeated(self) -> Repeats:
        if self._repeats is None:
            raise RuntimeError("Use the cache inside `async with`.")
        return self._repeats

    def _whose(self) -> Tenant:
        if self._tenant is None:
            raise RuntimeError("Use the cache inside `async with`.")
        return self._tenant


def _http_targets() -> MakeTargets:
    try:
        from stepwell.assembly.late_engines import late_targets  # noqa: PLC0415  (an extra)
    except ImportError as error:
        raise ConfigError(
            f"Model servers over HTTP need the package {error.name}, which is not installed:"
            " in a clone of Stepwell, pip install '.[gateway]'."
        ) from error
    return late_targets


def _digest(request: Request) -> bytes:
    if not isinstance(request, Mapping):
        raise RequestError(f"A request is a mapping, not {type(request).__name__}.")
    try:
        return hashlib.sha256(orjson.dumps(request)).digest()
    except orjson.JSONEncodeError as error:
        raise RequestError(f"The request cannot be written as JSON: {error}.") from error


def _hit_id_of(answer: object) -> str:
    match answer:
        case str():
            return answer
        case CachedAnswer() | AnswerStream():
            return answer.hit_id
        case _:
            kind = type(answer).__name__
            message = f"Nothing to judge: {kind} is neither an answer nor its hit_id."
            raise RequestError(message, code="no_hit")


def _whole(request: Request) -> Request:
    """Return ``request`` as one for a whole answer."""
    return {name: value for name, value in request.items() if name not in _STREAMING}


_STREAMING = frozenset({"stream", "stream_options"})


def _only_cached(question: Question) -> Question:
    return replace(question, directives=replace(question.directives, only_if_cached=True))
