"""The scheduler's side of the connector: what a request may load, and what it leaves to save."""

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from stepwell.vllm.asked import Asked
from stepwell.vllm.distrust import Distrust
from stepwell.vllm.lookups import Lookups
from stepwell.vllm.plan import Load, PlacedBlock, Save, StepPlan, name_blocks


@dataclass(frozen=True, slots=True)
class _Matched:
    """What is known of a request since it was matched."""

    scope_digest: bytes
    token_ids: Sequence[int]
    """All that are known, more with each step."""
    asked_tokens: int
    """How many there were when it was matched: its prompt, and what it had answered before vLLM
    took its pages away."""
    computed_blocks: int
    """Its first blocks, which vLLM had."""
    kept_blocks: int
    """Its first blocks, which need not be saved."""


class SchedulerSide:
    """Decides what is loaded and saved; does no I/O. One thread.

    A prompt is saved while it is being answered, in steps that its request takes part in: then its
    pages are computed, and nobody takes them away. The answer is saved when it is over. Loads are
    asynchronous: a page counts as computed only after the worker
    has filled it, so no other request can build on one that could not be loaded.
    """

    def __init__(
        self, lookups: Lookups, distrust: Distrust, *, block_tokens: int, early_blocks: int
    ) -> None:
        """Know no request yet.

        Args:
            lookups: Tells what is kept.
            distrust: Tells what of it is not to be used at present.
            block_tokens: How many tokens a page holds.
            early_blocks: How many blocks of requests that go on are saved with one step, at most.
                The step takes longer by as much.
        """
        self._lookups = lookups
        self._distrust = distrust
        self._block_tokens = block_tokens
        self._early_blocks = early_blocks
        self._matched: dict[str, _Matched] = {}
        self._loading: dict[str, Load] = {}
        self._loads: list[Load] = []
        self._saves: list[Save] = []
        self._early_saves: list[Save] = []
        self._early_left = early_blocks

    def match(self, asked: Asked, computed_tokens: int) -> int | None:
        """Return how many tokens can be loaded beyond those that vLLM has by itself.

        The last token is never among them, because the model must compute at least one to go on.

        Args:
            asked: The request.
            computed_tokens: Those that vLLM has: a multiple of a block's.

        Returns:
            A multiple of a block's tokens; ``None`` if that is not known yet: ask again soon.
        """
        found = self._lookups.find(asked)
        if found is None:
            return None
        if found.scope_digest is None:
            self._matched.pop(asked.request_id, None)
            return 0
        computed_blocks = computed_tokens // self._block_tokens
        self._matched[asked.request_id] = _Matched(
            found.scope_digest,
            asked.token_ids,
            len(asked.token_ids),
            computed_blocks,
            len(found.blocks),
        )
        most = (len(asked.token_ids) - 1) // self._block_tokens
        usable = min(self._distrust.trusted(found.blocks), most)
        return max(0, usable - computed_blocks) * self._block_tokens

    def allocate(self, request_id: str, pages: Sequence[int], tokens: int) -> None:
        """Plan to load ``tokens`` tokens, if any.

        Args:
            request_id: A request that was matched.
            pages: Its pages, in order: those that vLLM had when it was matched, then those to load.
            tokens: How many of those that were matched vLLM has made room for.
        """
        self._lookups.drop(request_id)
        matched = self._matched.get(request_id)
        if matched is None or not tokens:
            return
        start = matched.computed_blocks
        stop = start + tokens // self._block_tokens
        load = Load(
            request_id,
            matched.scope_digest,
            self._place(matched.scope_digest, matched.token_ids, pages, start, stop),
        )
        self._loading[request_id] = load
        self._loads.append(load)

    def loaded(self, request_ids: Iterable[str], failed_pages: Container[int]) -> None:
        """Note which loads are over, and which pages could not be filled."""
        for request_id in request_ids:
            load = self._loading.pop(request_id, None)
            if load is None:
                continue
            failed = next((one.block for one in load.blocks if one.page in failed_pages), None)
            if failed is None:
                self._distrust.succeeded()
                continue
            self._distrust.failed(failed.id)
            matched = self._matched.get(request_id)
            if matched is not None:
                # It will be computed, and is then to be saved.
                kept = failed.position // self._block_tokens
                self._matched[request_id] = replace(matched, kept_blocks=kept)

    def go_on(
        self, request_id: str, computed_tokens: int, pages: Callable[[], Sequence[int]]
    ) -> None:
        """Plan to save a prompt that is being answered, or the next part of it.

        Args:
            request_id: A request that takes part in the next step. Unknown ones are passed over.
            computed_tokens: How many of its tokens are computed before that step.
            pages: Returns its pages, in order.
        """
        matched = self._matched.get(request_id)
        if matched is None or computed_tokens < matched.asked_tokens:
            return
        start = matched.kept_blocks
        stop = min(matched.asked_tokens // self._block_tokens, start + self._early_left)
        if stop <= start:
            return
        digest = matched.scope_digest
        blocks = self._place(digest, matched.token_ids, pages(), start, stop)
        self._early_left -= len(blocks)
        self._early_saves.append(self._saved(request_id, digest, blocks))
        self._matched[request_id] = replace(matched, kept_blocks=stop)

    def finish(
        self, request_id: str, token_ids: Sequence[int], pages: Sequence[int], computed_tokens: int
    ) -> bool:
        """Plan to save what a request leaves.

        Args:
            request_id: A request that will not go on.
            token_ids: All of its prompt and output.
            pages: Its pages, in order.
            computed_tokens: How many of the tokens certainly have their keys and values there.

        Returns:
            Whether the pages must stay until the worker says that it has copied them.
        """
        self._lookups.drop(request_id)
        matched = self._matched.pop(request_id, None)
        if matched is None or request_id in self._loading:
            return False
        stop = min(computed_tokens, len(token_ids)) // self._block_tokens
        if stop <= matched.kept_blocks:
            return False
        digest = matched.scope_digest
        blocks = self._place(digest, token_ids, pages, matched.kept_blocks, min(stop, len(pages)))
        if blocks:
            self._saves.append(self._saved(request_id, digest, blocks))
        return bool(blocks)

    def take_plan(self) -> StepPlan:
        """Return what is to begin with the next step, once."""
        plan = StepPlan(tuple(self._loads), tuple(self._saves), tuple(self._early_saves))
        self._loads, self._saves, self._early_saves = [], [], []
        self._early_left = self._early_blocks
        return plan

    def use(self, lookups: Lookups) -> None:
        """Look elsewhere from now on; requests that were matched before leave nothing."""
        self._lookups.close()
        self._lookups = lookups
        self._matched.clear()

    def counted(self) -> dict[str, int]:
        """Return what happened since the start, by name."""
        return {"lookup_failed": self._lookups.failures}

    def close(self) -> None:
        """Stop what runs beside the scheduler."""
        self._lookups.close()

    def _saved(self, request_id: str, scope_digest: bytes, blocks: tuple[PlacedBlock, ...]) -> Save:
        self._distrust.renewed(placed.block.id for placed in blocks)
        return Save(request_id, scope_digest, blocks)

    def _place(
        self,
        scope_digest: bytes,
        token_ids: Sequence[int],
        pages: Sequence[int],
        start: int,
        stop: int,
    ) -> tuple[PlacedBlock, ...]:
        named = name_blocks(
            scope_digest, token_ids[: stop * self._block_tokens], self._block_tokens
        )
        placed = map(PlacedBlock, named, pages)
        return tuple(islice(placed, start, stop))
