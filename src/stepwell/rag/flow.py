"""From a question to an answer: by passages of a collection, through all caches.

The memo leads from the question, the collection and its epoch to the request it came to before.
Else the question is embedded (or its vector known), the passages nearest to it are found, and put
into a request. The cache has the answer to that request, or has the model make it. The request
holds the passages: once one of them has changed, it is another request.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from stepwell.client.answer import CachedAnswer
from stepwell.client.cache import Cache
from stepwell.core.clock import Clock, SystemClock
from stepwell.core.documents import CollectionState, Edition, Library, Passage
from stepwell.core.embedding_events import Source
from stepwell.core.errors import ConfigError, EditionGone, RequestError, UpstreamBroken
from stepwell.core.events import Result
from stepwell.rag.questions import QuestionEmbedder
from stepwell.rag.remembered import Memory, Remembered
from stepwell.rag.reply import Quoted, Reply
from stepwell.rag.stages import StageName, StageOutcome, Stages
from stepwell.rag.template import Template

PURPOSE = "rag"
TTL_SECONDS = 86_400.0
"""How long what a question came to is remembered. It depends on nothing that is not in its key."""

TOP = 5

_TRIES = 5
"""While collections are replaced."""

_HTTP_OK = 200
_SHOWN_BYTES = 300


@dataclass(frozen=True, slots=True)
class Sources:
    """Where passages come from."""

    documents: Library
    collection: str
    questions: QuestionEmbedder
    top: int = TOP
    """Passages for a question."""


class Rag:
    """Answers questions from a collection of documents.

    Safe for many tasks on one event loop, not across threads. What it is made of stays its
    owner's to close.
    """

    def __init__(
        self, sources: Sources, cache: Cache, template: Template, *, clock: Clock | None = None
    ) -> None:
        """Put it together.

        Args:
            sources: Where passages come from.
            cache: Entered. Keeps answers, and asks the model for those it has not.
            template: How a question becomes a request.
            clock: Times the stages.
        """
        self._sources = sources
        self._cache = cache
        self._template = template
        self._clock: Clock = clock or SystemClock()
        memo = cache.memo(PURPOSE, ttl_seconds=TTL_SECONDS)
        self._memory = Memory(memo, template, sources.top)

    async def ask(self, question: str) -> Reply:
        """Answer ``question``.

        Raises:
            ConfigError: The collection is not there, is empty, or was embedded by another model.
            RequestError: The question cannot be asked.
            StoreError: The library does not answer.
            EmbeddingError: The question could not be embedded.
            UpstreamError: The model server failed.
        """
        question, started = _checked(question), self._clock.monotonic()
        for _ in range(_TRIES):
            state, edition = await self._state()
            stages = Stages(self._clock.monotonic)
            try:
                came_to, text = await self._answer(question, state, edition, stages)
            except EditionGone:
                continue  # Other documents were put in its place meanwhile.
            milliseconds = 1_000 * (self._clock.monotonic() - started)
            return Reply(text, came_to.passages, tuple(stages.past), milliseconds)
        raise ConfigError(f"The collection {self._sources.collection!r} is being replaced.")

    async def _state(self) -> tuple[CollectionState, Edition]:
        name = self._sources.collection
        state = await self._sources.documents.collection(name) if name.isprintable() else None
        if state is None:
            raise ConfigError(f"There is no collection {name!r}. {_how_to_fill(name)}")
        if state.serving is None or state.recipe is None:
            raise ConfigError(f"The collection {name!r} is empty. {_how_to_fill(name)}")
        has, asked = state.recipe.kind, self._sources.questions.kind
        if has != asked:
            raise ConfigError(
                f"The collection {name!r} was embedded by {has.model!r} of {has.provider!r}, and"
                f" questions are by {asked.model!r} of {asked.provider!r}. {_how_to_fill(name)}"
            )
        return state, state.serving

    async def _answer(
        self, question: str, state: CollectionState, edition: Edition, stages: Stages
    ) -> tuple[Remembered, str]:
        known = await self._recall(question, state, stages)
        came_to = known or await self._retrieve(question, edition, stages)
        text = _text_of(await self._complete(came_to.request, stages))
        if known is None:
            await self._memory.keep(question, state, came_to)
        return came_to, text

    async def _recall(
        self, question: str, state: CollectionState, stages: Stages
    ) -> Remembered | None:
        with stages.time(StageName.MEMO, StageOutcome.MISS) as stage:
            found = await self._memory.find(question, state)
            if found is None:
                return None
            stage.outcome, stage.detail = StageOutcome.HIT, found[1]
        stages.skip(StageName.EMBEDDING, StageName.SEARCH)
        return found[0]

    async def _retrieve(self, question: str, edition: Edition, stages: Stages) -> Remembered:
        with stages.time(StageName.EMBEDDING, StageOutcome.MISS) as stage:
            vector, source = await self._sources.questions.embed(question)
            if source is not Source.ORIGIN:
                stage.outcome, stage.detail = StageOutcome.HIT, source
        with stages.time(StageName.SEARCH, StageOutcome.DONE) as stage:
            library, top = self._sources.documents, self._sources.top
            passages = await library.nearest(edition, vector, top)
            stage.detail = f"{len(passages)} passage{'' if len(passages) == 1 else 's'}"
        if not passages:
            name = self._sources.collection
            raise ConfigError(f"The collection {name!r} is empty. {_how_to_fill(name)}")
        return self._request(question, [*passages])

    def _request(self, question: str, passages: list[Passage]) -> Remembered:
        texts = [passage.text for passage in passages]
        count = self._template.fitting(texts)
        request = self._template.request(question, texts[:count])
        return Remembered(request, tuple(map(Quoted.of, passages[:count])))

    async def _complete(self, request: dict[str, Any], stages: Stages) -> CachedAnswer:
        with stages.time(StageName.RESULT, StageOutcome.MISS) as stage:
            found = await self._cache.lookup(request)
            if found is not None:
                stage.outcome, stage.detail = StageOutcome.HIT, _tier_of(found)
        if found is not None:
            stages.skip(StageName.MODEL)
            return found
        with stages.time(StageName.MODEL, StageOutcome.DONE) as stage:
            answer = await self._cache.complete(request)
            stage.detail = _made_how(answer)
        return answer


def _checked(question: str) -> str:
    """Return a question without the blanks around it.

    Raises:
        RequestError: There is nothing in it, or it is no Unicode.
    """
    question = question.strip()
    if not question:
        raise RequestError("The question is empty.", code="empty_question")
    try:
        question.encode()
    except UnicodeEncodeError as error:
        raise RequestError("The question is no Unicode text.", code="no_unicode") from error
    return question


def _how_to_fill(name: str) -> str:
    return f"To fill it: stepwell docs sync FOLDER --collection {name}"


def _tier_of(answer: CachedAnswer) -> str:
    """Return which tier had an answer, as the trail says it."""
    last = answer.trail[-1] if answer.trail else ""
    return last.rpartition(" hit in ")[2].partition(",")[0]


def _made_how(answer: CachedAnswer) -> str:
    """Return what it took to make an answer, or that another who asked at once had it made."""
    if answer.result is Result.COLLAPSED:
        return "shared"
    try:
        usage = msgspec.json.decode(answer.body, type=_Completion).usage
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    return "" if usage is None else f"{usage.completion_tokens} tokens"


class _Message(msgspec.Struct):
    content: str


class _Choice(msgspec.Struct):
    message: _Message


class _Usage(msgspec.Struct):
    completion_tokens: int = 0


class _Completion(msgspec.Struct):
    choices: tuple[_Choice, ...]
    usage: _Usage | None = None


def _text_of(answer: CachedAnswer) -> str:
    """Return the words of an answer.

    Raises:
        UpstreamBroken: The model server refused, or answered something else.
    """
    shown = answer.body[:_SHOWN_BYTES].decode(errors="replace")
    if answer.status != _HTTP_OK:
        message = f"The model server answered {answer.status}: {shown}"
        raise UpstreamBroken(message, upstream=PURPOSE)
    try:
        return msgspec.json.decode(answer.body, type=_Completion).choices[0].message.content
    except (msgspec.MsgspecError, UnicodeDecodeError, IndexError, RecursionError) as error:
        message = f"The model server's answer is no chat completion: {shown}"
        raise UpstreamBroken(message, upstream=PURPOSE) from error
